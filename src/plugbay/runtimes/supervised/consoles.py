"""The standard streams of a command: pipes, or a terminal of its own."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import socket
import struct
import termios
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import IO, Final

from plugbay.runtimes.exec_input import Console, ExecInput, TerminalSize
from plugbay.runtimes.port import ExecStream
from plugbay.values import dataclass

_END_OF_INPUT: Final = b"\x04"
"""The character of Ctrl-D: the input of a terminal has no other end."""

Pipe = IO[bytes]


class TerminalMaker(Enum):
    """The program that makes the terminal of a command: this one, or an engine, which hands it over (`handover`)."""

    NODE = "node"
    ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class Streams:
    """The standard streams of one command.

    Attributes:
        theirs: the command's ends of stdin, stdout and stderr; ours to close once it has them.
        outputs: its output; the reader closes them.
        input: its input, if it is to be given any.
        terminal: the socket over which a terminal comes that an engine makes.
    """

    theirs: tuple[int, int, int]
    outputs: Sequence[tuple[ExecStream, Pipe]]
    input: Pipe | None
    terminal: socket.socket | None = None

    async def with_terminal(self) -> Streams:
        """The streams with the terminal that an engine makes; without, when it has made none."""
        if self.terminal is None or (ours := await _received(self.terminal)) is None:
            return self
        to_terminal = _writer(os.dup(ours))
        return replace(self, outputs=[(ExecStream.STDOUT, _reader(ours)), *self.outputs], input=to_terminal)

    def close_theirs(self) -> None:
        for descriptor in set(self.theirs):
            os.close(descriptor)

    def close_ours(self) -> None:
        for opened in (*(pipe for _, pipe in self.outputs), self.input, self.terminal):
            if opened is not None:
                opened.close()


def open_streams(console: Console | None, maker: TerminalMaker = TerminalMaker.NODE) -> Streams:
    """Open the standard streams of a command. Without a ``console`` the command reads nothing.

    Raises:
        OSError: the system is out of descriptors or terminals.
    """
    with ExitStack() as opened:
        if console is not Console.TERMINAL:
            streams = _open_pipes(opened, console)
        elif maker is TerminalMaker.ENGINE:
            streams = _await_terminal(opened)
        else:
            streams = _open_terminal(opened)
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
        [(ExecStream.STDOUT, _reader(from_stdout)), (ExecStream.STDERR, _reader(from_stderr))],
        None if to_stdin is None else _writer(to_stdin),
    )


def _open_terminal(opened: ExitStack) -> Streams:
    ours, theirs = (_closed_later(opened, descriptor) for descriptor in pty.openpty())
    # Two files, as each is closed by its own reader or writer.
    to_terminal = _closed_later(opened, os.dup(ours))
    return Streams((theirs, theirs, theirs), [(ExecStream.STDOUT, _reader(ours))], _writer(to_terminal))


def _await_terminal(opened: ExitStack) -> Streams:
    """Until the terminal comes, there is only what the engine itself says."""
    ours, theirs = socket.socketpair()
    opened.callback(ours.close)
    handing = _closed_later(opened, theirs.detach())
    from_engine, to_engine = _pipe(opened)
    return Streams((handing, to_engine, to_engine), [(ExecStream.STDOUT, _reader(from_engine))], None, ours)


async def _received(terminal: socket.socket) -> int | None:
    """The descriptor that comes over a socket; None when the other side closes it."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    terminal.setblocking(False)
    loop.add_reader(terminal, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(terminal)
    try:
        _, descriptors, _, _ = socket.recv_fds(terminal, 1, 1, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        return None
    return descriptors[0] if descriptors else None


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
async def fed(
    pipe: Pipe | None, given: ExecInput | None, resize: Callable[[TerminalSize], None] | None = None
) -> AsyncIterator[None]:
    """Pass input that is ``given`` to the command while the block runs.

    Args:
        resize: changes the size of its terminal, where ``pipe`` is not that terminal.
    """
    if given is None or pipe is None:
        yield
        return
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_write_pipe(lambda: _Flow(given), pipe)
    given.connect(_Sink(transport, given.console, resize or partial(_resize, pipe)))
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
    def __init__(
        self, transport: asyncio.WriteTransport, console: Console, resize: Callable[[TerminalSize], None]
    ) -> None:
        self._transport = transport
        self._console = console
        self._resize = resize

    def write(self, chunk: bytes) -> None:
        self._transport.write(chunk)

    def end(self) -> None:
        if self._console is Console.TERMINAL:
            self._transport.write(_END_OF_INPUT)
        else:
            self._transport.write_eof()

    def resize(self, size: TerminalSize) -> None:
        if self._console is Console.TERMINAL:
            self._resize(size)


def _resize(terminal: Pipe, size: TerminalSize) -> None:
    with contextlib.suppress(OSError):  # the command has just gone
        fcntl.ioctl(terminal.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))
