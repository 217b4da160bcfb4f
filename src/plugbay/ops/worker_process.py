"""A program of ours in a process of its own, which ends with us: the pipes to it, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from plugbay.ops.spawned_worker import SpawnedWorker, spawn_worker
from plugbay.ops.tasks import to_the_end

DIE_S: Final = 2.0
"""A process in an uninterruptible system call does not die of SIGKILL before the call ends."""
_FIRST_LOOK_S: Final = 0.0005
_NEXT_LOOKS_S: Final = 0.02


class WorkerProcess:
    """A running program with a pipe in and a pipe out; made by `start` or `adopt`.

    asyncio's own processes need a thread each before Python 3.12, and a start that stops the event loop until that
    thread has had its turn.
    """

    requests: StreamWriter
    answers: StreamReader

    def __init__(self, spawned: SpawnedWorker) -> None:
        self._process = spawned.process
        self._lifeline: int | None = spawned.lifeline
        self._pipes = contextlib.ExitStack()

    @classmethod
    async def start(cls, program: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> Self:
        """Start a program as `spawn_worker` does; raises what that raises."""
        return await cls.adopt(spawn_worker(program, *arguments, environ=environ))

    @classmethod
    async def adopt(cls, spawned: SpawnedWorker) -> Self:
        """Take charge of a program that has been started."""
        worker = cls(spawned)
        try:
            await worker._connect()
        except BaseException:  # it was cancelled
            await worker.kill()
            raise
        return worker

    async def _connect(self) -> None:
        loop, answers, nothing = asyncio.get_running_loop(), StreamReader(), StreamReader()
        reading, _ = await loop.connect_read_pipe(lambda: StreamReaderProtocol(answers), self._process.stdout)
        self._pipes.callback(reading.close)
        writing, protocol = await loop.connect_write_pipe(lambda: StreamReaderProtocol(nothing), self._process.stdin)
        self._pipes.callback(lambda: None if writing.is_closing() else writing.abort())  # or closed by its other end
        self.requests, self.answers = StreamWriter(writing, protocol, None, loop), answers

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
        await self._has_ended()
        code = self._process.returncode
        if code is None:
            return "closed its pipe"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"

    async def kill(self) -> bool:
        """End the process and those that it started; returns whether it has ended. It is waited for in any case."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
            self._pipes.close()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
        return await to_the_end(self._has_ended())

    async def _has_ended(self) -> bool:
        """Wait for the end, which is near. A pidfd would tell of it, but not on Linux before 5.3."""
        delay_s = _FIRST_LOOK_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DIE_S):
                while self._process.poll() is None:
                    await asyncio.sleep(delay_s)
                    delay_s = min(2 * delay_s, _NEXT_LOOKS_S)
        return self._process.returncode is not None
