"""Asking a container's wrapper to run a command beside it; what it answers is described in `exec_server`."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from plugbay.kernel.processes import ProcessIdentity
from plugbay.runtimes.exec_input import TerminalSize
from plugbay.values import dataclass

_SOCKET: Final = "guests.sock"
_BACKLOG: Final = 128
_LEAVING_S: Final = 5
"""A wrapper needs milliseconds to kill a session, unless it was stopped by a signal."""


def listen_for_guests(directory: Path) -> socket.socket:
    """The socket for the wrapper of the instance in ``directory``.

    Raises:
        OSError: it cannot be made.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(directory) as short:
            listener.bind(f"{short}/{_SOCKET}")
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def invite(directory: Path, words: Sequence[str], streams: Sequence[int]) -> socket.socket:
    """Ask a wrapper for what ``words`` say on ``streams``: stdin, stdout and stderr. Closing the socket ends it.

    Never waits.

    Raises:
        OSError: no wrapper listens, or too many commands run.
        ValueError: a command cannot have these words.
    """
    if any("\0" in word for word in words):
        raise ValueError("a command cannot hold a NUL character")
    text = "".join(f"{word}\0" for word in words).encode(errors="surrogateescape")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    request = os.memfd_create("command")
    try:
        connection.setblocking(False)
        os.set_blocking(request, False)  # for what polices the event loop: this is memory
        os.write(request, text)
        with _short(directory) as short:
            connection.connect(f"{short}/{_SOCKET}")
        socket.send_fds(connection, [b"\0"], [request, *streams])
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(request)
    return connection


@dataclass(frozen=True, slots=True)
class StartFailure:
    step: str
    errno: int


class ExecConnection(asyncio.Protocol):
    """A command, or a client of the container, as its wrapper tells of it.

    Args:
        on_end: called when the command has ended.
        on_gone: called when the wrapper has hung up: nothing of the command is left, if it was in order.

    Attributes:
        leader: None until it was started.
        is_attached: whether this is a client of the container itself, which the wrapper has let in.
        is_dropped: whether the wrapper has left that client, which has read nothing for some seconds.
        exit_code: None until it has ended, and when that was never told.
    """

    def __init__(self, *, on_end: Callable[[], None], on_gone: Callable[[], None]) -> None:
        self._on_end = on_end
        self._on_gone = on_gone
        self._pending = b""
        self._transport: asyncio.Transport | None = None
        self._gone = asyncio.Event()
        self.leader: ProcessIdentity | None = None
        self.failure: StartFailure | None = None
        self.exit_code: int | None = None
        self.is_attached = False
        self.is_dropped = False

    def resize(self, size: TerminalSize) -> None:
        """Change the size of the container's terminal."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(f"size {size.height} {size.width}\n".encode())

    async def leave(self) -> None:
        """Tell the wrapper to kill all processes of the command that are left."""
        if self._transport is None:
            return  # cancelled while it was being connected, which closes the connection
        try:
            self._transport.write_eof()
            async with asyncio.timeout(_LEAVING_S):
                await self._gone.wait()
        except (OSError, TimeoutError):
            pass
        finally:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            self._read(line.decode().split())

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        self._on_gone()

    def _read(self, words: Sequence[str]) -> None:
        match words:
            case "started", pid, ticks:
                self.leader = ProcessIdentity(int(pid), start_ticks=int(ticks))
            case ("attached",):
                self.is_attached = True
            case ("dropped",):
                self.is_dropped = True
            case "failed", step, number:
                self.failure = StartFailure(step, int(number))
            case "exit", code:
                self.exit_code = int(code)
                self._on_end()


@contextmanager
def _short(directory: Path) -> Iterator[str]:
    """Another name for a directory, short enough for a socket below it: a socket's path may have 107 bytes only."""
    opened = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}"
    finally:
        os.close(opened)
