"""The plugin's program in a chaos run: killed, frozen, and started again whenever it has ended, as in a DaemonSet."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plugbay.ops.changes import Changes
from plugbay.testing.conformance.subject.command import PluginCommand
from plugbay.testing.conformance.subject.process import Subject
from plugbay.testing.tracing.program import how_ended, running

AGAIN_S: Final = 0.2
"""The time after which a program that has ended is started again."""


class KeptProgram:
    """Runs while `keep` does.

    Attributes:
        endings: the ways in which it ended without having been told to, as clauses.
        crashed: whether one of them was a signal such as SIGSEGV.
        changes: told when it has started, or ended.
        last: the process that ran last; None before the first.
    """

    def __init__(self, command: PluginCommand, root: Path, environ: Mapping[str, str]) -> None:
        self.command = command
        self.endings: list[str] = []
        self.crashed = False
        self.changes = Changes()
        self.last: Subject | None = None
        self._root = root
        self._environ = environ
        self._told: Subject | None = None

    async def keep(self) -> None:
        """Start it again and again, until cancelled; then end it.

        Raises:
            PluginProgramFailed: it cannot be run.
        """
        while True:
            async with running(self.command, self._root, self._environ) as subject:
                self.last = subject
                self.changes.notify()
                await subject.ended.wait()
            if subject is not self._told:
                self.endings.append(how_ended(subject))
                self.crashed |= (subject.exit_code or 0) < 0
            self.changes.notify()
            await asyncio.sleep(AGAIN_S)

    async def kill(self) -> None:
        """Kill it; return when it runs again."""
        subject = self._told = await self._running()
        await subject.kill()
        await self._running(after=subject)

    async def terminate(self) -> None:
        """End it by SIGTERM, and after some seconds by SIGKILL; return when it runs again."""
        subject = self._told = await self._running()
        await subject.end()
        await self._running(after=subject)

    async def freeze(self, seconds: float) -> None:
        """Stop its process for a while."""
        subject = await self._running()
        subject.send(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            subject.send(signal.SIGCONT)

    async def _running(self, *, after: Subject | None = None) -> Subject:
        """The process that runs now, or next."""
        async for _ in self.changes:
            if self.last is not None and self.last is not after and self.last.is_running:
                return self.last
        raise AssertionError("changes have no end")
