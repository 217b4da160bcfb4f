"""Where a plugin's socket lies: a new name for each incarnation, and no leftovers of dead ones."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from pathlib import Path
from typing import Final

from plugbay.model.ids import ResourceName
from plugbay.wire.transport import MAX_SOCKET_PATH_BYTES

_TOKEN_BYTES: Final = 4


def new_socket_path(directory: Path, resource: ResourceName) -> Path:
    """A path nobody has used: ``example.com_gopher-1f2e3d4c.sock``, hashed when that would be too long to bind."""
    token = secrets.token_hex(_TOKEN_BYTES)
    path = directory / f"{_stem(resource)}-{token}.sock"
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        path = directory / f"{_short_stem(resource)}-{token}.sock"
    return path


def remove_leftovers(directory: Path, resource: ResourceName) -> None:
    """Remove sockets of earlier incarnations for ``resource`` at which nobody answers."""
    for stem in (_stem(resource), _short_stem(resource)):
        for path in directory.glob(f"{stem}-{'[0-9a-f]' * (2 * _TOKEN_BYTES)}.sock"):
            if path.is_socket() and not _answers(path):
                path.unlink(missing_ok=True)


def _stem(resource: ResourceName) -> str:
    return resource.replace("/", "_")


def _short_stem(resource: ResourceName) -> str:
    return hashlib.sha256(resource.encode()).hexdigest()[:12]


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return False
        except OSError:  # its queue is full, or it is not ours to judge
            return True
    return True
