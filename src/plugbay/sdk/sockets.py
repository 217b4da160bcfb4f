"""A plugin's sockets: new names for each incarnation, and no leftovers of dead ones."""

from __future__ import annotations

import logging
import os
import re
import socket
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from plugbay.errors import PathUnusable
from plugbay.model.ids import ResourceName, is_extended_resource
from plugbay.wire.sockets import MAX_SOCKET_PATH_BYTES

logger = logging.getLogger(__name__)

_TOKEN_BYTES: Final = 4
_NAME: Final = re.compile(rf"(?P<stem>.+)-[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.sock")
"""One pattern for the names of all resources' sockets: `glob` would keep one for each resource."""
_SHORT_CHARS: Final = 12
_SHORT: Final = re.compile(rf"[0-9a-f]{{{_SHORT_CHARS}}}")
"""The form of all hashed stems: only what looks like one is compared with one."""

SocketId = tuple[int, int]
"""The identity of a socket among all at one path: inode and time of its last change of status."""


def identify(path: Path) -> SocketId | None:
    """The socket at ``path``; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def are_there(paths: Iterable[Path]) -> bool:
    """Whether all ``paths`` exist, as far as we may see."""
    return all(identify(path) is not None for path in paths)


def is_directory(path: Path) -> bool:
    """Whether there is a directory at ``path``.

    Raises:
        PathUnusable: we may not look.
    """
    found = _look(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def check_directory(directory: Path) -> None:
    """Check that ``directory`` can be used, or could be made by a kubelet that starts later.

    Raises:
        PathUnusable: it never can.
    """
    there = next(path for path in (directory, *directory.parents) if _look(path))
    if not is_directory(there):
        raise PathUnusable(str(there), "is not a directory")
    if there == directory and not os.access(directory, os.W_OK | os.X_OK):
        raise PathUnusable(str(directory), "not writable by this user; a device plugin has to make its socket there")


def _look(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except PermissionError as error:
        raise PathUnusable(str(path), "closed to this user") from error
    except OSError:
        return None


def new_socket_path(directory: Path, resource: ResourceName) -> Path:
    """A path that was never used: ``example.com_gopher-1f2e3d4c.sock``, hashed when that would be too long to bind.

    It never begins with a dot, so that a plugin watcher sees it.
    """
    token = os.urandom(_TOKEN_BYTES).hex()
    path = directory / f"{_stem(resource)}-{token}.sock"
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        path = directory / f"{_short_stem(resource)}-{token}.sock"
    return path


def remove_leftovers(directory: Path, resource: ResourceName) -> None:
    """Remove sockets of earlier incarnations at which no process listens; a process that hangs still listens."""
    for path in sockets_of(directory, resource):
        try:
            if path.is_socket() and not _is_listening(path):
                path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("%s: cannot remove the leftover %s: %s", resource, path, error.strerror)


def sockets_of(directory: Path, resource: ResourceName) -> list[Path]:
    """The sockets of all processes that serve or served ``resource``, by their names."""
    found = ((name, _NAME.fullmatch(name)) for name in _names(directory))
    return [directory / name for name, match in found if match is not None and _is_of(resource, match["stem"])]


def our_sockets(directory: Path) -> Iterator[tuple[Path, str, bool]]:
    """The sockets of plugins of ours, each with its resource and whether a process listens there.

    A name too long for a path has a hash in place of the resource, which stands for it here as well.
    """
    for name in sorted(_names(directory)):
        if (found := _NAME.fullmatch(name)) is None or not (directory / name).is_socket():
            continue
        resource = found["stem"].replace("_", "/", 1)
        if is_extended_resource(resource) or _SHORT.fullmatch(resource):
            yield directory / name, resource, _is_listening(directory / name)


def listening_sockets(directory: Path, beginning: str) -> Iterator[Path]:
    """The sockets with such names at which a process listens, whoever made them."""
    for name in sorted(_names(directory)):
        path = directory / name
        if name.startswith(beginning) and path.is_socket() and _is_listening(path):
            yield path


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:  # it is gone again, which the next look at it finds
        return []


def _stem(resource: ResourceName) -> str:
    return resource.replace("/", "_")


def _short_stem(resource: ResourceName) -> str:
    # Imported here: it brings OpenSSL, and few directories have names so long.
    from hashlib import sha256

    return sha256(resource.encode()).hexdigest()[:_SHORT_CHARS]


def _is_of(resource: ResourceName, stem: str) -> bool:
    return stem == _stem(resource) or (_SHORT.fullmatch(stem) is not None and stem == _short_stem(resource))


def _is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return False
        except OSError:  # its queue is full, or it is not ours to judge
            return True
    return True
