"""The sockets in a kubelet's device-plugins directory, and the processes that listen there."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plugbay.observe.reading.meeting import meet
from plugbay.observe.reading.moments import moment_of
from plugbay.observe.view import ReadingProblem, SocketState, SocketView, Witness

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
    met = meet(path)
    match met.state:
        case SocketState.FULL:
            return SocketView(name=name, made=made, pid=0, problem=_FULL)
        case SocketState.DEAD:
            return SocketView(name=name, made=made)
        case _ if met.problem:
            return SocketView(name=name, made=made, problem=met.problem)
    return SocketView(name=name, made=made, pid=met.pid, command=_command(proc, met.pid))


def _command(proc: Path, pid: int) -> str:
    try:
        return (proc / str(pid) / "comm").read_text(errors="replace").strip() if pid else ""
    except OSError:
        return ""
