"""The sockets in a kubelet's device-plugins directory, and the processes that listen there.

To find out, each is connected to and let go at once, as a kubelet does it; nothing is sent. That also works where the
kernel's table of sockets does not: a plugin in a pod may have a network namespace of its own.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plugbay.observe.reading.moments import moment_of
from plugbay.observe.view import ReadingProblem, SocketView, Witness

_PEER: Final = struct.Struct("3i")
_FULL: Final = "its queue of connections is full: a process listens, and does not take them"


def read_sockets(directory: Path, *, proc: Path) -> tuple[tuple[SocketView, ...], tuple[ReadingProblem, ...]]:
    """The sockets by name."""
    try:
        with os.scandir(directory) as entries:
            found = [entry.name for entry in entries if _is_socket(entry)]
    except FileNotFoundError:
        return (), (ReadingProblem(Witness.SOCKETS, f"{directory} does not exist: no kubelet has its directory here"),)
    except OSError as error:
        sentence = f"sockets in {directory} cannot be looked at: {(error.strerror or str(error)).lower()}"
        return (), (ReadingProblem(Witness.SOCKETS, sentence),)
    views: Sequence[SocketView] = [_looked_at(directory, name, proc) for name in sorted(found)]
    return tuple(views), ()


def _is_socket(entry: os.DirEntry[str]) -> bool:
    try:
        return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
    except FileNotFoundError:  # a kubelet that writes its checkpoint makes a file there and renames it
        return False


def _looked_at(directory: Path, name: str, proc: Path) -> SocketView:
    path = directory / name
    try:
        made = moment_of(path.lstat().st_mtime)
    except OSError:
        made = None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(bytes(path))
            pid, _, _ = _PEER.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        except BlockingIOError:
            return SocketView(name=name, made=made, pid=0, problem=_FULL)
        except ConnectionRefusedError:
            return SocketView(name=name, made=made)
        except OSError as error:
            return SocketView(name=name, made=made, problem=(error.strerror or str(error)).lower())
    return SocketView(name=name, made=made, pid=pid, command=_command(proc, pid))


def _command(proc: Path, pid: int) -> str:
    try:
        return (proc / str(pid) / "comm").read_text(errors="replace").strip() if pid else ""
    except OSError:
        return ""
