"""One worker process: the frames of its pipes."""

from __future__ import annotations

import _pickle as pickle  # its Python twin, which is not used, would cost a fifth of a megabyte
import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self

from plugbay.errors import DriverUnusable
from plugbay.ops.spawned_worker import SpawnedWorker
from plugbay.ops.worker_process import WorkerProcess
from plugbay.plugins.nvidia.nvml.troubles import crashed

_LENGTH_BYTES: Final = 4
_MOST_BYTES: Final = 1 << 24
"""More than any answer has: a driver that crashes may overwrite what the worker sends."""
_FRAMES: Final = {"answer": 3, "event": 6, "unwatched": 3, "started": 3, "reading": 3}
"""The members of each kind of frame."""


class NvmlConnection:
    """Asks the worker, and reads its answers and events while `run` runs."""

    def __init__(self, process: WorkerProcess) -> None:
        self.process = process
        self._number = 0
        self._asked: dict[int, asyncio.Future[tuple[Any, ...]]] = {}
        self._question: str | None = None
        self._end: asyncio.Future[DriverUnusable | None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(cls, worker: SpawnedWorker, *, library: str, sys_root: Path) -> Self:
        """Take charge of a worker, and tell it where the driver's library and sysfs are."""
        connection = cls(await WorkerProcess.adopt(worker))
        connection._write((library, str(sys_root)))
        return connection

    async def ask(self, question: str, arguments: Sequence[object]) -> tuple[Any, ...]:
        """The outcome of a question.

        Raises:
            ConnectionError: the worker ended meanwhile.
        """
        if self._end.done():
            raise ConnectionResetError
        self._number += 1
        number, self._question = self._number, question
        answer: asyncio.Future[tuple[Any, ...]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            self._write((number, question, tuple(arguments)))
            await self.process.requests.drain()
            return await answer
        finally:
            self._asked.pop(number, None)

    def _write(self, request: tuple[object, ...]) -> None:
        encoded = pickle.dumps(request)
        self.process.requests.write(len(encoded).to_bytes(_LENGTH_BYTES, "big") + encoded)

    def end(self, trouble: DriverUnusable | None) -> None:
        """Let `run` return ``trouble``."""
        if not self._end.done():
            self._end.set_result(trouble)

    async def run(self, take_event: Callable[[tuple[Any, ...]], DriverUnusable | None]) -> DriverUnusable | None:
        """Read until the worker ends, or `end` is called; returns why.

        Args:
            take_event: given each event; the trouble that it returns ends the worker.
        """
        reading = asyncio.ensure_future(self._read(take_event))
        try:
            await asyncio.wait({reading, self._end}, return_when=asyncio.FIRST_COMPLETED)
            if self._end.done():
                return self._end.result()
            trouble = reading.result()
            return trouble or crashed(await self.process.how_it_ended(), self._question if self._asked else None)
        finally:
            reading.cancel()
            await asyncio.wait({reading})
            self.end(None)
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(ConnectionResetError())

    async def _read(self, take_event: Callable[[tuple[Any, ...]], DriverUnusable | None]) -> DriverUnusable | None:
        while True:
            try:
                size = int.from_bytes(await self.process.answers.readexactly(_LENGTH_BYTES), "big")
                if size > _MOST_BYTES:
                    return crashed("sent an answer that cannot be read", self._question)
                frame = decoded(await self.process.answers.readexactly(size))
            except (asyncio.IncompleteReadError, ConnectionError):
                return None
            if frame is None:
                return crashed("sent an answer that cannot be read", self._question)
            if frame[0] != "answer":
                trouble = take_event(frame)
                if trouble is not None:
                    return trouble
                continue
            _, number, outcome = frame
            answer = self._asked.get(number)  # None if its caller was cancelled
            if answer is not None and not answer.done():
                answer.set_result(outcome)


def decoded(content: bytes) -> tuple[Any, ...] | None:
    """A frame of the worker; None for what is none: a driver that crashes may write anywhere."""
    try:
        frame = pickle.loads(content)
    except (
        *(pickle.UnpicklingError, EOFError, AttributeError, ImportError, ValueError, TypeError),
        *(LookupError, ArithmeticError, MemoryError, RecursionError, SystemError),
    ):
        return None
    if not isinstance(frame, tuple) or not frame:
        return None
    places = _FRAMES.get(frame[0]) if isinstance(frame[0], str) else None
    return frame if places == len(frame) else None
