"""Scratch disks on a node: what one pod writes, no other one reads."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plugbay.kernel.loop import LoopDevices

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

LOOPS = LoopDevices(Path("/dev"), Path("/sys"))
ON = ("--feature-gates", "DeviceManagerDeallocate=true")
SIZE = 1 << 20
DEADLINE_S = 30
SUCCEEDED = "--for=jsonpath={.status.phase}=Succeeded"
READY = "--for=condition=Ready"


def can_make_loop_devices() -> bool:
    try:
        LOOPS.check()
    except OSError:
        return False
    return os.geteuid() == 0


pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not can_make_loop_devices(), reason="needs root and /dev/loop-control"),
]


class Scratch:
    """A directory of disks, and the options to serve it with."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def options(self, *, count: int = 1, partitions: int = 0) -> tuple[str, ...]:
        options = ("--directory", str(self.directory), "--size", "1Mi", "--count", str(count))
        more = ("--partitions", str(partitions)) if partitions else ()
        return ("scratch", "--resource", "example.com/scratch", *options, *more)

    def attached(self) -> list[str]:
        return [loop.name for file in sorted(self.directory.glob("disk*")) for loop in LOOPS.of(file)]

    def content(self, disk: str = "disk0") -> bytes:
        return (self.directory / disk).read_bytes()


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    scratch = Scratch(tmp_path / "disks")
    yield scratch
    for file in scratch.directory.glob("disk*"):
        for loop in LOOPS.of(file):
            LOOPS.detach(loop)


@asynccontextmanager
async def serving(plugbay: Plugbay, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    async with plugbay.start("serve", *options, stderr=asyncio.subprocess.PIPE) as plugin:
        assert plugin.stderr is not None
        async with asyncio.timeout(DEADLINE_S):
            while b"registered" not in (line := await plugin.stderr.readline()):
                assert line, "it ended"
            drained = asyncio.ensure_future(plugin.stderr.read())
        yield plugin
        if plugin.returncode is None:
            plugin.terminate()
        async with asyncio.timeout(DEADLINE_S):
            assert await plugin.wait() in (0, -signal.SIGKILL)
            await drained


def pod(name: str, script: str, *, resource: str = "scratch", count: int = 1) -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [python3, -c, {script!r}]
    resources: {{limits: {{example.com/{resource}: {count}}}}}
"""


OPEN = (
    "import json, os; moved = json.loads(os.environ['PLUGBAY_MOUNTS']); "
    "disk = open(moved[os.environ['SCRATCH']], 'rb+', buffering=0); "
)
WRITE = OPEN + "disk.write(b'secret'.ljust(4096)); print('written')"
READ = OPEN + "print('dirty' if disk.read().strip(b'\\0') else 'clean')"


async def run(plugbay: Plugbay, manifest: str, name: str) -> list[str]:
    """What a pod that ends by itself writes to its log."""
    assert (await plugbay("pod", "apply", "-f", "-", given=manifest)).code == 0
    waited = await plugbay("pod", "wait", SUCCEEDED, name)
    assert waited.code == 0, (await plugbay("pod", "describe", name)).out + (await plugbay("pod", "logs", name)).out
    return (await plugbay("pod", "logs", name)).out.splitlines()


async def test_second_pod_cannot_read_what_the_first_one_wrote(plugbay: Plugbay, scratch: Scratch) -> None:
    async with plugbay.node_up(*ON), serving(plugbay, *scratch.options()):
        assert await run(plugbay, pod("one", WRITE), "one") == ["written"]
        assert await run(plugbay, pod("two", READ), "two") == ["clean"]
    assert scratch.attached() == []
    assert scratch.content() == bytes(SIZE)
