"""A machine for real network plugins: namespaces of its own, with nothing of the real one's network in them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.contract.conftest import DEADLINE_S, Done

BINARIES: Final = Path("/usr/lib/cni")
"""Where Debian's package containernetworking-plugins puts them."""
_PLUGINS: Final = ("bridge", "host-local", "portmap", "bandwidth", "loopback")
_TOOLS: Final = ("unshare", "nsenter", "ip", "tc", "iptables", "iptables-save", "ip6tables")
_SETTLE: Final = (
    "mount -t tmpfs none /run && mount -t tmpfs none /var/lib && ip link set lo up && echo settled && exec cat"
)

_SUBNETS: Final = re.compile(r"10\.213\.|fd00:10:213:")
"""Of the networks that tests and the example configure."""


def _lacking() -> list[str]:
    lacking = [f"{BINARIES / each}" for each in _PLUGINS if not (BINARIES / each).is_file()]
    return lacking + [each for each in _TOOLS if shutil.which(each) is None]


def needs_private_machine(function: Any) -> Any:
    """Mark a test that runs real plugins."""
    lacking = _lacking()
    skip = pytest.mark.skipif(
        os.geteuid() != 0 or bool(lacking), reason=f"needs root and {', '.join(lacking) or 'namespaces'}"
    )
    return pytest.mark.root(skip(function))


class PrivateMachine:
    """Programs run in its namespaces; ``/run`` and ``/var/lib`` are empty there, the rest is the real machine's."""

    def __init__(self, pid: int) -> None:
        self.enter = ("nsenter", "--target", str(pid), "--net", "--mount")

    async def __call__(self, *argv: str, given: str = "") -> Done:
        """Run a program to its end."""
        pipe = asyncio.subprocess.PIPE
        async with asyncio.timeout(DEADLINE_S):
            process = await asyncio.create_subprocess_exec(*self.enter, *argv, stdin=pipe, stdout=pipe, stderr=pipe)
            out, err = await process.communicate(given.encode())
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())

    async def text(self, *argv: str) -> str:
        """The output of a program that succeeds."""
        done = await self(*argv)
        assert done.code == 0, done
        return done.out

    async def cni(self, *argv: str) -> Done:
        return await self(sys.executable, "-m", "plugbay", "cni", *argv, "--bin-dir", str(BINARIES))

    async def python(self, code: str, *argv: str, netns: str = "") -> str:
        """The output of a Python program, perhaps in another network namespace of the machine."""
        inside = ("nsenter", f"--net=/run/netns/{netns}") if netns else ()
        return await self.text(*inside, sys.executable, "-c", code, *argv)

    @asynccontextmanager
    async def start(self, *argv: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """A program that runs; killed at the end of the block if it still does."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*self.enter, *argv, stdout=pipe)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    @asynccontextmanager
    async def serving(self, code: str, *, netns: str) -> AsyncIterator[None]:
        """A Python program that has printed a line, and runs until the end of the block."""
        argv = (*self.enter, "nsenter", f"--net=/run/netns/{netns}", sys.executable, "-c", code)
        process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        try:
            assert process.stdout is not None
            async with asyncio.timeout(DEADLINE_S):
                assert await process.stdout.readline()
            yield
        finally:
            process.kill()
            await process.communicate()

    async def shapers(self) -> list[dict[str, Any]]:
        """The token bucket filters, without their order."""
        found = json.loads(await self.text("tc", "-j", "-r", "qdisc", "show"))
        return [each for each in found if each["kind"] == "tbf"]

    async def leavings(self) -> tuple[str, ...]:
        """What a pod may not leave behind: links, rules, namespaces, remembered results and addresses."""
        rules = await self.text("sh", "-c", "iptables-save -t nat; ip6tables-save -t nat")
        own = [line for line in rules.splitlines() if line.startswith("-A CNI-DN-") or _SUBNETS.search(line)]
        links = json.loads(await self.text("ip", "-j", "link"))
        extra = [each["ifname"] for each in links if each["ifname"].startswith(("veth", "bwp"))]
        files = await self.text("find", "/run/netns", "/var/lib/cni/results", "/var/lib/cni/networks", "-type", "f")
        kept = [line for line in files.split() if not line.endswith("lock") and "last_reserved_ip" not in line]
        return *own, *extra, *kept


@asynccontextmanager
async def private_machine() -> AsyncIterator[PrivateMachine]:
    """A machine that ends, with all that is in its namespaces, when the block does."""
    unshare = ("unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", _SETTLE)
    pipe = asyncio.subprocess.PIPE
    holder = await asyncio.create_subprocess_exec(*unshare, stdin=pipe, stdout=pipe)
    try:
        assert holder.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            if await holder.stdout.readline() != b"settled\n":
                pytest.skip("this machine lets nobody make namespaces")
        yield PrivateMachine(holder.pid)
    finally:
        if holder.returncode is None:
            holder.kill()
        await holder.communicate()
