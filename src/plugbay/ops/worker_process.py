"""A program of ours in a process of its own, which ends with us: the pipes to it, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

DIE_S: Final = 2.0
"""A process in an uninterruptible system call does not die of SIGKILL before the call ends."""


class WorkerProcess:
    """A running program with a pipe in and a pipe out; made by `start`.

    Args:
        lifeline: the process dies when its other end of this pipe sees ours closed.
    """

    def __init__(self, process: Process, lifeline: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.requests: asyncio.StreamWriter = process.stdin
        self.answers: asyncio.StreamReader = process.stdout
        self._process = process
        self._lifeline: int | None = lifeline

    @classmethod
    async def start(cls, program: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> Self:
        """Start Python with ``program``, without `site`; its first argument is the descriptor of its lifeline.

        Args:
            environ: its whole environment; None for ours.

        Raises:
            OSError: no process can be started: there are too many, or no memory.
        """
        theirs, ours = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(program), str(theirs), *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                pass_fds=(theirs,),
                start_new_session=True,  # Ctrl-C is for us
                env=environ,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return cls(process, ours)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def rss_bytes(self) -> int:
        """The memory that the process has to itself or shares; 0 when it has ended."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_bytes().split()[1]
        except (OSError, IndexError):  # it has just ended
            return 0
        return int(pages) * resource.getpagesize()

    async def how_it_ended(self) -> str:
        """``was killed by SIGABRT`` or ``exited with code 3``, of a process whose pipes have closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DIE_S):
                await self._process.wait()
        code = self._process.returncode
        if code is None:
            return "closed its pipe"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"

    async def kill(self) -> bool:
        """End the process and those that it started; returns whether it has ended."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        try:
            async with asyncio.timeout(DIE_S):
                await self._process.wait()
        except TimeoutError:
            return False
        return True
