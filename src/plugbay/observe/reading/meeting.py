"""Find out whether a process listens at a socket, and which: it is connected to and let go at once, nothing is sent.

A kubelet does the same. It works where the kernel's table of sockets does not: a plugin in a pod may have a network
namespace of its own.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from plugbay.observe.view import SocketState
from plugbay.values import dataclass

_CREDENTIALS: Final = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class SocketMeeting:
    """The result of a connection.

    Attributes:
        pid: of the process that listens; 0 where that cannot be seen from here.
        problem: the error of a connection that failed in a way that tells nothing; empty for any other.
    """

    state: SocketState
    pid: int = 0
    problem: str = ""


def meet(path: Path) -> SocketMeeting:
    """Connect to the socket at ``path``, however long that is, without waiting."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, reachable(path) as short:
        probe.setblocking(False)
        try:
            probe.connect(short)
        except BlockingIOError:
            return SocketMeeting(SocketState.FULL)
        except PermissionError as error:
            return SocketMeeting(SocketState.CLOSED, problem=_words(error))
        except OSError as error:
            if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
                return SocketMeeting(SocketState.DEAD)
            return SocketMeeting(SocketState.LISTENING, problem=_words(error))  # one of another kind
        credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, _, _ = _CREDENTIALS.unpack(credentials)
        return SocketMeeting(SocketState.LISTENING, pid)


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A name of a socket that is short enough for the kernel, whatever the length of its path."""
    try:
        directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield str(path)
        return
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
