"""Unix sockets: names that the kernel takes, and sockets that listen."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from plugbay.errors import PathTooLong, PathUnusable

MAX_SOCKET_PATH_BYTES: Final = 107
"""``sun_path`` holds 108 bytes, the last one is NUL."""
ONLY_OURS: Final = 0o600
"""The mode of a socket to which only its owner, and root, may connect."""
OURS_AND_THE_GROUPS: Final = 0o660
_FULL_S: Final = 0.01
"""The interval between looks at a full queue: the kernel does not tell when it has room."""
_NOT_ESCAPED: Final = "!$&'()*+,;=:[]@"
"""Characters of an authority, besides letters, digits and ``-_.~``."""


def check_socket_path(path: Path) -> Path:
    """``path``, if the kernel can bind it.

    Raises:
        PathTooLong: more than 107 bytes.
    """
    if len(bytes(path)) > MAX_SOCKET_PATH_BYTES:
        raise PathTooLong(str(path), MAX_SOCKET_PATH_BYTES)
    return path


def authority_of(path: Path) -> str:
    """The authority that Go's gRPC sends when a kubelet dials a bare path: Rust servers refuse it, as no host has it.

    Source: grpc-go 1.81 ``clientconn.go``, ``encodeAuthority``.
    """
    return quote(bytes(path), safe=_NOT_ESCAPED)


async def connected(path: Path) -> socket.socket:
    """A socket connected to the one at ``path``; waits while that has too many connections to accept.

    The event loop could connect as well, but it loads OpenSSL to ask whether the socket speaks TLS, and takes a socket
    for connected that the kernel has refused for the moment.

    Raises:
        OSError: no socket, no listener, or not ours to connect to.

    Source: Linux ``connect(2)``, EAGAIN.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        while True:
            try:
                connection.connect(os.fspath(path))
                return connection
            except BlockingIOError:
                await asyncio.sleep(_FULL_S)
    except BaseException:
        connection.close()
        raise


def _goes() -> bool:
    return False


@contextmanager
def listening(path: Path, *, mode: int = ONLY_OURS, stays: Callable[[], bool] = _goes) -> Iterator[socket.socket]:
    """A socket bound to ``path``, by default only for its owner and root to connect to; the file goes with the block.

    A stale socket at ``path`` is replaced. A file that another process has put there meanwhile is left alone.

    Args:
        mode: the mode of the file.
        stays: asked at the end of the block: whether the file stays, as when a process is killed.

    Raises:
        PathTooLong: the kernel cannot bind the path.
        PathUnusable: the directory is missing or closed to us, or something else is at ``path``.
    """
    check_socket_path(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as listener:
        # Linux gives the file the mode of the unbound socket, less the umask: no moment is left with another mode.
        os.fchmod(listener.fileno(), mode)
        try:
            made = _bind(listener, path, mode)
        except OSError as error:
            problem = f"cannot make a socket here: {error.strerror or error}"
            raise PathUnusable(str(path.parent), problem) from error
        try:
            yield listener
        finally:
            # The listener keeps the file's number: until it is closed, no other file has the same.
            with suppress(OSError):
                if not stays() and _identity(path.lstat()) == made:
                    path.unlink()


def _bind(listener: socket.socket, path: Path, mode: int) -> tuple[int, int]:
    """Bind, and return the file's identity, whatever its name."""
    try:
        listener.bind(os.fspath(path))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        with suppress(FileNotFoundError):  # its server has removed it meanwhile
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise PathUnusable(str(path), "cannot listen: something is there that is not a socket") from error
            path.unlink()
        listener.bind(os.fspath(path))
    made = path.lstat()
    if stat.S_IMODE(made.st_mode) != mode:  # the umask has taken more
        path.chmod(mode)
    return _identity(made)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
