"""The command, as processes of its own, for whole-node tests."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from plugbay.sdk.release.evidence import readings

DEADLINE_S = 30
COMMAND_S = DEADLINE_S + 15
"""Longer than `pod wait` waits by itself: it says what it waited for, and its test what became of that."""


@pytest.fixture(autouse=True)
def _patient_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubelet has two seconds to write its checkpoint; a manager beside other tests may take longer."""
    monkeypatch.setattr(readings, "DEADLINE_S", 20.0)


class Done(NamedTuple):
    """What a command left; equal to a tuple of the three."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The words of a table without its header."""
        return [line.split() for line in self.out.splitlines()[1:]]


class Plugbay:
    """The command, on one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._argv: tuple[str, ...] = (sys.executable, "-m", "plugbay", "--root", str(root))

    async def __call__(self, *argv: str, given: str = "") -> Done:
        """Run a command to its end."""
        pipe = asyncio.subprocess.PIPE
        async with asyncio.timeout(COMMAND_S), self.start(*argv, stdin=pipe, stderr=pipe) as process:
            out, err = await process.communicate(given.encode())
            assert process.returncode is not None
            return Done(process.returncode, out.decode(), err.decode())

    @asynccontextmanager
    async def start(self, *argv: str, **streams: Any) -> AsyncIterator[asyncio.subprocess.Process]:
        """A command that runs; killed at the end if it still does."""
        pipes = {"stdin": asyncio.subprocess.DEVNULL, "stdout": asyncio.subprocess.PIPE, **streams}
        process = await asyncio.create_subprocess_exec(*self._argv, *argv, **pipes)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    @asynccontextmanager
    async def node_up(self, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """A node that serves; its pods are deleted at the end."""
        words = ("--name", "n1", "--runtime", "process", "--log-level", "warning", *options)
        async with self.start("node", "up", *words) as node:
            await self.line_with(node, "SIGTERM or Ctrl-C stops the node and leaves its pods running")
            try:
                yield node
            finally:
                if node.returncode is None:
                    await self("pod", "delete", "--all", "--force")
                    await self.stop(node)

    async def until_running(self, name: str) -> None:
        async with self.start("pod", "get", name, "-w") as watch:
            await self.line_with(watch, " Running ")

    async def line_with(self, process: asyncio.subprocess.Process, text: str) -> str:
        """The next line of a process's output that holds ``text``."""
        assert process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            while line := (await process.stdout.readline()).decode():
                if text in line:
                    return line
        raise AssertionError(f"the output ended without {text!r}")

    async def stop(self, node: asyncio.subprocess.Process) -> None:
        node.terminate()
        async with asyncio.timeout(DEADLINE_S):
            assert await node.wait() == 0


@pytest.fixture
def plugbay(sockets: Path) -> Plugbay:
    return Plugbay(sockets)
