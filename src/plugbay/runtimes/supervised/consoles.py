"""The standard streams of a command: pipes, or a terminal of its own."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import termios
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import IO, Final

from plugbay.runtimes.exec_input import Console, ExecInput, TerminalSize
from plugbay.runtimes.port import ExecStream

_END_OF_INPUT: Final = b"\x04"
"""The character of Ctrl-D: the input of a terminal has no other end."""

Pipe = IO[bytes]


@dataclass(frozen=True, slots=True)
class Streams:
    """The standard streams of one command.

    Attributes:
        theirs: the command's ends of stdin, stdout and stderr; ours to close once it has them.
        outputs: its output; the reader closes them.
        input: its input, if it is to be given any.
    """

    theirs: tuple[int, int, int]
    outputs: Mapping[ExecStream, Pipe]
    input: Pipe | None

    def close_theirs(self) -> None:
        for descriptor in set(self.theirs):
            os.close(descriptor)

    def close_ours(self) -> None:
        for pipe in (*self.outputs.values(), self.input):
            if pipe is not None:
                pipe.close()


def open_streams(console: Console | None) -> Streams:
    """Open the standard streams of a command. Without a ``console`` the command reads nothing.

    Raises:
        OSError: the system is out of descriptors or terminals.
    """
    with ExitStack() as opened:
        streams = _open_terminal(opened) if console is Console.TERMINAL else _open_pipes(opened, console)
        opened.pop_all()
    return streams


def _open_pipes(opened: ExitStack, console: Console | None) -> Streams:
    if console:
        stdin, to_stdin = _pipe(opened)
    else:
        stdin, to_stdin = _closed_later(opened, os.open(os.devnull, os.O_RDONLY)), None
    from_stdout, stdout = _pipe(opened)
    from_stderr, stderr = _pipe(opened)
    return Streams(
        (stdin, stdout, stderr),
        {ExecStream.STDOUT: _reader(from_stdout), ExecStream.STDERR: _reader(from_stderr)},
        None if to_stdin is None else _writer(to_stdin),
    )


def _open_terminal(opened: ExitStack) -> Streams:
    ours, theirs = (_closed_later(opened, descriptor) for descriptor in pty.openpty())
    # Two files, as each is closed by its own reader or writer.
    to_terminal = _closed_later(opened, os.dup(ours))
    return Streams((theirs, theirs, theirs), {ExecStream.STDOUT: _reader(ours)}, _writer(to_terminal))


def _pipe(opened: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    return _closed_later(opened, read), _closed_later(opened, write)


def _closed_later(opened: ExitStack, descriptor: int) -> int:
    opened.callback(os.close, descriptor)
    return descriptor


def _reader(descriptor: int) -> Pipe:
    return os.fdopen(descriptor, "rb", buffering=0)


def _writer(descriptor: int) -> Pipe:
    return os.fdopen(descriptor, "wb", buffering=0)


@asynccontextmanager
async def fed(pipe: Pipe | None, given: ExecInput | None) -> AsyncIterator[None]:
    """Pass input that is ``given`` to the command while the block runs."""
    if given is None or pipe is None:
        yield
        return
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_write_pipe(lambda: _Flow(given), pipe)
    given.connect(_Sink(transport, pipe, given.console))
    try:
        yield
    finally:
        given.disconnect()
        # After its end was written a transport closes by itself; to abort it once more breaks asyncio.
        if not transport.is_closing() or transport.get_write_buffer_size():
            transport.abort()


class _Flow(asyncio.BaseProtocol):
    """Tells whether the command takes more; one that has closed its input takes everything, and it is lost."""

    def __init__(self, given: ExecInput) -> None:
        self._given = given

    def pause_writing(self) -> None:
        self._given.pause()

    def resume_writing(self) -> None:
        self._given.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._given.disconnect()


class _Sink:
    def __init__(self, transport: asyncio.WriteTransport, pipe: Pipe, console: Console) -> None:
        self._transport = transport
        self._pipe = pipe
        self._console = console

    def write(self, chunk: bytes) -> None:
        self._transport.write(chunk)

    def end(self) -> None:
        if self._console is Console.TERMINAL:
            self._transport.write(_END_OF_INPUT)
        else:
            self._transport.write_eof()

    def resize(self, size: TerminalSize) -> None:
        if self._console is Console.TERMINAL:
            with contextlib.suppress(OSError):  # the command has just gone
                fcntl.ioctl(self._pipe.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))
