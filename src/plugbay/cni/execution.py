"""Run one program with an input and a deadline; neither it nor a process that it leaves behind can hold us up."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

_MAX_OUTPUT: Final = 16 * 1024 * 1024
"""A thousand times more than the largest result; a program that prints without end must not fill our memory."""
_LEFT_OPEN_S: Final = 1.0
"""The time that output may stay open after its program has ended: a daemon that it left behind can hold it open."""
_REAP_S: Final = 5.0
_BUSY_TRIES: Final = 6
_BUSY_S: Final = 1.0
"""The number and length of libcni's waits for a program that is just being written."""

_STDOUT: Final = 1
_STDERR: Final = 2


class Ended(NamedTuple):
    """The end of a program; ``status`` is its exit status, or minus the number of a signal."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def status_text(self) -> str:
        return f"exit status {self.status}" if self.status >= 0 else f"signal: {signal.strsignal(-self.status)}".lower()


class OutputTooLong(Exception):
    """The program printed more than we want to hold; it was killed."""


async def execute(program: Path, *, given: bytes, environ: Mapping[str, str], timeout_s: float) -> Ended:
    """Run ``program`` with ``given`` as its input, in a process group of its own.

    On every way out the program has ended: on a time-out, and when this is cancelled, its group is killed.

    Raises:
        TimeoutError: it did not end in time.
        OutputTooLong: it printed too much.
        OSError: it cannot be started.
    """
    with _memory_file(given) as stdin:
        running = await _start(program, stdin, environ)
    try:
        async with asyncio.timeout(timeout_s):
            await running.done
        return running.ended
    finally:
        await running.stop()


class _Running(asyncio.SubprocessProtocol):
    """A program that runs.

    Attributes:
        done: it has ended, and its output is complete.
    """

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._exited = asyncio.Event()
        self._output = {_STDOUT: bytearray(), _STDERR: bytearray()}
        self._open = {_STDOUT, _STDERR}
        self._transport: asyncio.SubprocessTransport

    @property
    def ended(self) -> Ended:
        status = self._transport.get_returncode()
        assert status is not None
        return Ended(status, bytes(self._output[_STDOUT]), bytes(self._output[_STDERR]))

    async def stop(self) -> None:
        if not self._exited.is_set():
            # The leader has not been waited for, so that the number is still that of its group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._transport.get_pid(), signal.SIGKILL)
            with contextlib.suppress(TimeoutError):  # it is in the kernel, and will not come back
                async with asyncio.timeout(_REAP_S):
                    await self._exited.wait()
        self.done.cancel()
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._output[fd] += data
        if len(self._output[fd]) > _MAX_OUTPUT and not self.done.done():
            self.done.set_exception(OutputTooLong())

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        self._settle()

    def process_exited(self) -> None:
        self._exited.set()
        asyncio.get_running_loop().call_later(_LEFT_OPEN_S, self._finish)
        self._settle()

    def _settle(self) -> None:
        if self._exited.is_set() and not self._open:
            self._finish()

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def _start(program: Path, stdin: int, environ: Mapping[str, str]) -> _Running:
    for left in reversed(range(_BUSY_TRIES)):
        try:
            _, running = await asyncio.get_running_loop().subprocess_exec(
                _Running, str(program), stdin=stdin, env=dict(environ), process_group=0
            )
            return running
        except OSError as error:
            if error.errno != errno.ETXTBSY or not left:
                raise
        await asyncio.sleep(_BUSY_S)
    raise AssertionError("the last try returns or raises")


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[int]:
    """A descriptor from which ``content`` is read: unlike a pipe, it does not mind a program that reads nothing."""
    descriptor = os.memfd_create("input", os.MFD_CLOEXEC)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
