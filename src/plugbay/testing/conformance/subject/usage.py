"""The processor time, memory, descriptors and threads that a plugin uses: it and all processes below it.

Source: Linux ``proc(5)``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from plugbay.values import dataclass

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_GONE: Final = (FileNotFoundError, ProcessLookupError, PermissionError)


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """The sums over a tree of processes at one moment.

    Attributes:
        cpu_s: processor time since they started, user and system.
        rss_bytes: memory in use; pages that two processes share count twice.
        descriptors: open file descriptors.
    """

    cpu_s: float = 0.0
    rss_bytes: int = 0
    descriptors: int = 0
    threads: int = 0
    processes: int = 0


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    session: int
    cpu_ticks: int
    threads: int
    pages: int


def tree_usage(leader: int, *, proc_root: Path) -> ResourceUsage:
    """The usage of process ``leader``, of all below it, and of all in the session that it leads."""
    processes = _all(proc_root)
    tree = tree_of(leader, processes)
    members = [processes[pid] for pid in tree]
    return ResourceUsage(
        cpu_s=sum(each.cpu_ticks for each in members) / _TICKS_PER_S,
        rss_bytes=sum(each.pages for each in members) * _PAGE_BYTES,
        descriptors=sum(_descriptors(proc_root / str(pid)) for pid in tree),
        threads=sum(each.threads for each in members),
        processes=len(members),
    )


def tree_wakeups(leader: int, *, proc_root: Path) -> int:
    """How often the threads that run now in the tree of ``leader`` have gone to sleep since they began."""
    count = 0
    for pid in tree_of(leader, _all(proc_root)):
        with suppress(*_GONE):
            for task in os.listdir(proc_root / str(pid) / "task"):
                status = (proc_root / str(pid) / "task" / task / "status").read_text(errors="replace")
                count += _number_in(status, "voluntary_ctxt_switches", base=10)
    return count


def caught_signals(pid: int, *, proc_root: Path) -> frozenset[int]:
    """The numbers of the signals for which the process has handlers; none if it is gone."""
    with suppress(*_GONE):
        mask = _number_in((proc_root / str(pid) / "status").read_text(errors="replace"), "SigCgt", base=16)
        return frozenset(bit + 1 for bit in range(mask.bit_length()) if mask >> bit & 1)
    return frozenset()


def listening_ports(leader: int, *, proc_root: Path) -> list[int]:
    """The TCP ports on which the tree of ``leader`` listens: a second instance could not have the same."""
    sockets: set[str] = set()
    for pid in tree_of(leader, _all(proc_root)):
        sockets |= _sockets(proc_root / str(pid))
    ports = set()
    for table in ("tcp", "tcp6"):
        with suppress(*_GONE):
            for line in (proc_root / str(leader) / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                    ports.add(int(fields[1].rpartition(":")[2], 16))
    return sorted(ports)


def tree_of(leader: int, processes: dict[int, _Process]) -> list[int]:
    """The pids of ``leader``, of its session, and of the processes below any of them."""
    below: dict[int, list[int]] = {}
    for pid, process in processes.items():
        below.setdefault(process.parent, []).append(pid)
    tree: dict[int, None] = {}
    todo = [pid for pid, process in processes.items() if pid == leader or process.session == leader]
    while todo:
        pid = todo.pop()
        if pid not in tree:
            tree[pid] = None
            todo += below.get(pid, ())
    return list(tree)


def _all(proc_root: Path) -> dict[int, _Process]:
    found = {}
    for name in os.listdir(proc_root):
        if name.isdigit():
            with suppress(*_GONE):
                found[int(name)] = _parsed((proc_root / name / "stat").read_text(errors="replace"))
    return found


def _parsed(stat: str) -> _Process:
    fields = stat.rpartition(")")[2].split()
    return _Process(
        parent=int(fields[1]),
        session=int(fields[3]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        threads=int(fields[17]),
        pages=int(fields[21]),
    )


def _descriptors(process: Path) -> int:
    with suppress(*_GONE):
        return len(os.listdir(process / "fd"))
    return 0


def _number_in(status: str, name: str, *, base: int) -> int:
    for line in status.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value, base)
    return 0


def _sockets(process: Path) -> set[str]:
    with suppress(*_GONE):
        return {target for target in _targets(process / "fd") if target.startswith("socket:")}
    return set()


def _targets(descriptors: Path) -> Iterable[str]:
    for entry in os.listdir(descriptors):
        with suppress(*_GONE):
            yield os.readlink(descriptors / entry)
