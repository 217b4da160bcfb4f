"""Let commands that come too early wait for a node that is starting, instead of failing.

Kept because the pages show it: docs/tester.md starts a node with ``&``, and its next line needs the node. Without this,
lines that are pasted together would fail, and a plugin that starts at the same time as the node would take a stock
kubelet of the same machine for its own.

The node announces its start by listening on an abstract unix socket named after its root. That may be there before the
root is, leaves no file behind, and closes when the node is ready or its process has ended; a command that waits learns
that at once.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

SOCKET_NAME: Final = "plugbay.sock"
"""The control socket, below a node's root."""
_PREFIX: Final = b"\0plugbay node up "
_CREDENTIALS: Final = struct.Struct("3i")
"""The layout of credentials: process, user and group."""


@contextmanager
def announced_start(root: Path) -> Iterator[Callable[[], None]]:
    """Commands wait for the node at ``root`` until the block ends, or the function given is called: it is ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as announcement:
        with suppress(OSError):  # another one starts there; this one will be told so soon
            announcement.bind(address_of(root))
            announcement.listen()
        yield announcement.close


def wait_for_start(root: Path, *, for_s: float) -> bool:
    """Wait while a node starts at ``root``; returns whether one did. It may have failed to.

    Raises:
        TimeoutError: it is still starting after ``for_s`` seconds.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as announcement:
        announcement.settimeout(for_s)
        try:
            announcement.connect(address_of(root))
        except OSError:
            return False
        if not _is_trusted(announcement):
            return False
        with suppress(ConnectionError):
            announcement.recv(1)  # nothing is ever sent: it ends
        return True


def is_node_up(root: Path) -> bool:
    """Whether a node answers at ``root``, or is starting there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as announcement:
        if _connects(announcement, address_of(root)) and _is_trusted(announcement):
            return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
        return _connects(control, os.fsencode(root / SOCKET_NAME))


def _connects(client: socket.socket, address: bytes) -> bool:
    """Whether there is a server behind ``address``, if only one with a full queue."""
    client.setblocking(False)
    try:
        client.connect(address)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


def address_of(root: Path) -> bytes:
    """Where a node that starts at ``root`` listens."""
    return _PREFIX + os.fsencode(os.path.realpath(root))


def _is_trusted(connection: socket.socket) -> bool:
    """Tell whether the node is this user's or root's: any user may listen on an abstract socket, and hold us up."""
    _, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return uid in (0, os.geteuid())
