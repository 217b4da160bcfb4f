"""Find processes that listen at sockets whose files are gone, by the kernel's lists of unix sockets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plugbay.observe.doctor.evidence.host import Gaps, Host
from plugbay.observe.doctor.evidence.values import EvidenceSource, LostListener
from plugbay.values import dataclass

_ACCEPTS_CONNECTIONS: Final = 1 << 16
_MOST_TABLES: Final = 2000
_MOST_CLOSED: Final = 64
"""Tables of processes whose network namespace we may not know: most are the same table again."""


@dataclass(frozen=True, slots=True)
class _Listener:
    path: str
    inode: str


def read_lost_listeners(directory: Path, host: Host, gaps: Gaps) -> tuple[LostListener, ...]:
    """The sockets in ``directory`` at which processes listen though the file is gone: a kubelet has removed it.

    The kernel has a list for each network namespace, and a plugin's pod may have its own. The paths are those of the
    process's own mount namespace: a process that sees another directory there does not count.

    Raises:
        OSError: there is no /proc, or it is closed to this user.

    Source: Linux ``net/unix/af_unix.c``, ``unix_seq_show``.
    """
    proc = host.at("/proc")
    wanted = os.fsencode(host.shown(directory)) + b"/"
    tables = [_listeners(table, wanted) for table in _tables(proc, gaps)]
    if all(table is None for table in tables):
        gaps.note(EvidenceSource.LISTENERS, "/proc", "no process with a list of sockets is there")
    found = {each for table in tables for each in table or ()}
    lost = {each for each in found if not os.path.lexists(host.at(each.path))}
    if not lost:
        return ()
    owners = _owners({each.inode for each in lost}, proc)
    here = _identity(directory)
    seen = []
    for each in sorted(lost, key=lambda each: each.path):
        pid = owners.get(each.inode)
        if pid is None:
            gaps.note(EvidenceSource.LISTENERS, each.path, "a process listens there that is not seen from here")
        elif _identity(proc / pid / "root" / str(host.kubelet_root / "device-plugins").lstrip("/")) == here:
            seen.append(LostListener(each.path, int(pid), _name(proc / pid)))
    return tuple(seen)


def _tables(proc: Path, gaps: Gaps) -> Iterator[Path]:
    """The list of sockets of each network namespace, by a process in it."""
    seen: set[str] = set()
    closed: list[Path] = []
    for pid in filter(str.isdigit, os.listdir(proc)):
        try:
            namespace = os.readlink(proc / pid / "ns/net")
        except PermissionError:
            closed.append(proc / pid / "net/unix")
            continue
        except OSError:
            continue
        if namespace not in seen and len(seen) < _MOST_TABLES:
            seen.add(namespace)
            yield proc / pid / "net/unix"
    yield from closed[:_MOST_CLOSED]
    if len(closed) > _MOST_CLOSED:
        what = f"the network namespaces of {len(closed)} processes"
        gaps.note(EvidenceSource.LISTENERS, what, "closed to this user; root sees them")


def _listeners(table: Path, wanted: bytes) -> set[_Listener] | None:
    """Those whose path begins as ``wanted``; None if the table cannot be read."""
    try:
        lines = table.read_bytes().splitlines()[1:]
    except OSError:  # the process has ended, or is a zombie
        return None
    # number, references, protocol, flags, type, state, inode, path
    listed = [fields for fields in (line.split(maxsplit=7) for line in lines) if len(fields) == 8]
    return {
        _Listener(os.fsdecode(fields[7]), fields[6].decode())
        for fields in listed
        if fields[7].startswith(wanted) and int(fields[3], 16) & _ACCEPTS_CONNECTIONS
    }


def _owners(inodes: set[str], proc: Path) -> dict[str, str]:
    """The process that has each of these sockets open."""
    wanted = {f"socket:[{each}]": each for each in inodes}
    found: dict[str, str] = {}
    for pid in os.listdir(proc):
        if not pid.isdigit():
            continue
        try:
            with os.scandir(proc / pid / "fd") as descriptors:
                for each in descriptors:
                    if (inode := wanted.get(os.readlink(each.path))) is not None:
                        found[inode] = pid
        except OSError:  # it has ended, or is closed to us
            continue
    return found


def _identity(directory: Path) -> tuple[int, int] | None:
    try:
        found = directory.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text(errors="replace").strip()
    except OSError:
        return "?"
