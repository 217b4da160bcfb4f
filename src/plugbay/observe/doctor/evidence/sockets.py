"""Read the sockets of plugins and kubelet: files, and the processes behind them. Nothing is sent to a process."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plugbay.observe.doctor.evidence.host import Gaps, Host
from plugbay.observe.doctor.evidence.values import DirectorySight, EvidenceSource, SocketSight
from plugbay.observe.reading.meeting import meet
from plugbay.observe.view import SocketState

OUR_SOCKET: Final = re.compile(r"(?P<stem>.+)-[0-9a-f]{8}\.sock")
"""The names that plugbay's plugins give their sockets: the resource with ``_`` for ``/``, and a number."""
_RESOURCE: Final = re.compile(r"(?P<domain>[a-z0-9][a-z0-9.-]*\.[a-z0-9-]+)_(?P<name>.+)")
_MOST_SOCKETS: Final = 1000


def read_directory(
    path: Path, host: Host, gaps: Gaps, source: EvidenceSource = EvidenceSource.DIRECTORIES
) -> DirectorySight:
    """A directory's rights and label."""
    shown = host.shown(path)
    try:
        found = path.stat()
    except FileNotFoundError:
        return DirectorySight(shown, is_there=False)
    except OSError as error:
        gaps.note(source, shown, error)
        return DirectorySight(shown, is_there=False)
    is_directory = stat.S_ISDIR(found.st_mode)
    return DirectorySight(shown, is_directory, stat.S_IMODE(found.st_mode), found.st_uid, host.label_of(path))


def read_sockets(directory: Path, host: Host, gaps: Gaps, *, below: bool = False) -> tuple[SocketSight, ...]:
    """The sockets right in ``directory``, or everywhere below it, by name."""
    paths = list(_socket_paths(directory, host, gaps, below=below))
    if len(paths) > _MOST_SOCKETS:
        gaps.note(
            EvidenceSource.SOCKETS,
            host.shown(directory),
            f"only {_MOST_SOCKETS} of its {len(paths)} sockets were tried",
        )
    found = (read_socket(path, host, gaps) for path in sorted(paths)[:_MOST_SOCKETS])
    return tuple(each for each in found if each is not None)


def _socket_paths(directory: Path, host: Host, gaps: Gaps, *, below: bool) -> Iterator[Path]:
    try:
        with os.scandir(directory) as entries:
            listed = list(entries)
    except FileNotFoundError:
        return
    except OSError as error:
        gaps.note(EvidenceSource.SOCKETS, host.shown(directory), error)
        return
    for entry in listed:
        path = directory / entry.name
        if entry.is_dir(follow_symlinks=False):
            if below and not entry.name.startswith("."):
                yield from _socket_paths(path, host, gaps, below=True)
        elif _is_socket(entry):
            yield path


def _is_socket(entry: os.DirEntry[str]) -> bool:
    try:
        return stat.S_ISSOCK(entry.stat().st_mode)
    except OSError:
        return False


def read_socket(path: Path, host: Host, gaps: Gaps) -> SocketSight | None:
    """The socket at ``path``; None if there is none."""
    shown = host.shown(path)
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        gaps.note(EvidenceSource.SOCKETS, shown, error)
        return None
    if not stat.S_ISSOCK(found.st_mode):
        return None
    met = meet(path)
    state, pid = met.state, met.pid
    if state is SocketState.CLOSED:
        gaps.note(EvidenceSource.SOCKETS, shown, "closed to this user")
    process = _process_name(pid, host) if pid else ""
    mode, name = stat.S_IMODE(found.st_mode), _resource_of(path.name)
    return SocketSight(shown, state, mode, found.st_uid, found.st_ctime, pid, process, resource=name)


def _process_name(pid: int, host: Host) -> str:
    try:
        return host.at(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def _resource_of(name: str) -> str:
    """The resource that a socket's name tells, if it is one of plugbay's plugins."""
    ours = OUR_SOCKET.fullmatch(name)
    found = _RESOURCE.fullmatch(ours["stem"]) if ours else None
    return f"{found['domain']}/{found['name']}" if found else ""


def is_answering(path: Path) -> bool:
    """Whether a process listens at ``path``, as far as this user can tell."""
    met = meet(path)
    return met.state is SocketState.FULL or (met.state is SocketState.LISTENING and not met.problem)
