"""Sockets to listen on, private ones without a moment in which others could connect."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.errors import PathTooLong, PathUnusable, SocketInUse, UsageError
from plugbay.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_PATH_BYTES: Final = 107
_MAX_PORT: Final = 65535
_BACKLOG: Final = 128


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A unix socket only its owner may connect to (mode 0600)."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A TCP socket; port 0 lets the kernel choose, an empty host is every address of the machine, IPv6 and IPv4."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Address = UnixAddress | TcpAddress

_TCP: Final = re.compile(r"(?P<host>|\[[0-9A-Fa-f:.%\w]+\]|[^\[\]:]+):(?P<port>[0-9]{1,5})")
_UNIX: Final = "unix:"


def parse_address(text: str) -> Address:
    """``HOST:PORT``, ``[IPV6]:PORT``, ``:PORT`` for every address of the machine, or ``unix:PATH``.

    Raises:
        UsageError: ``text`` has another form.
    """
    if text.startswith(_UNIX) and (path := text.removeprefix(_UNIX)):
        return UnixAddress(Path(path).absolute())
    found = _TCP.fullmatch(text)
    if found is None or int(found["port"]) > _MAX_PORT:
        raise UsageError(
            f"{text!r} is not an address to listen at; it must be like :9400, 127.0.0.1:9400 or unix:/PATH"
        )
    return TcpAddress(found["host"].strip("[]"), int(found["port"]))


@contextmanager
def listen(address: Address) -> Iterator[socket.socket]:
    """A listening, nonblocking socket; closed at the end, and its file removed if it is still ours.

    A socket file at which no process answers is taken for a leftover and replaced. Two programs that find the same
    leftover at the same moment may both replace it: hold a lock where that matters.

    Raises:
        SocketInUse: a process answers there.
        PathTooLong, PathUnusable: the path cannot be bound.
    """
    match address:
        case UnixAddress(path):
            with _listen_unix(path) as listener:
                yield listener
        case TcpAddress():
            with _listen_tcp(address) as listener:
                yield listener


def bound_address(listener: socket.socket, asked: Address) -> Address:
    """The address of a listener, with the port that the kernel chose."""
    if isinstance(asked, UnixAddress):
        return asked
    host, port, *_ = listener.getsockname()
    return TcpAddress(host, port)


@contextmanager
def _listen_unix(path: Path) -> Iterator[socket.socket]:
    if len(bytes(path)) > _MAX_PATH_BYTES:
        raise PathTooLong(str(path), _MAX_PATH_BYTES)
    _remove_leftover(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        # Linux gives the file the mode the socket has when it is bound: no window, and no umask for other threads.
        os.fchmod(listener.fileno(), 0o600)
        try:
            listener.bind(str(path))
        except OSError as error:
            raise _translated(path, error) from error
        ours = _identity(path)
        try:
            listener.setblocking(False)
            listener.listen(_BACKLOG)
            yield listener
        finally:
            # While the listener is open the kernel gives the inode number to no other file.
            if _identity(path) == ours:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()


@contextmanager
def _listen_tcp(address: TcpAddress) -> Iterator[socket.socket]:
    is_for_all = not address.host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if is_for_all or ":" in address.host else socket.AF_INET
    # The protocol is named for asyncio, which lets only sockets with it send small pieces at once (TCP_NODELAY).
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_for_all:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            listener.bind((address.host, address.port))
            listener.setblocking(False)
            listener.listen(_BACKLOG)
        except OSError as error:
            raise _translated(address, error) from error
        yield listener


def _remove_leftover(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise PathUnusable(str(path), "exists and is not a socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            probe.connect(str(path))
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
    except BlockingIOError:
        raise SocketInUse(str(path)) from None  # its queue is full, so a program listens there
    except OSError as error:
        raise PathUnusable(str(path), error.strerror or str(error)) from error
    else:
        raise SocketInUse(str(path))


def _translated(address: Address | Path, error: OSError) -> SocketInUse | PathUnusable:
    if error.errno == errno.EADDRINUSE:
        return SocketInUse(str(address))
    return PathUnusable(str(address), f"cannot listen here: {error.strerror or error}")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
