"""Wrappers that run although no record tells of them: they have the directory of their instance as an argument."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plugbay.kernel.processes import ProcessIdentity, read_stat
from plugbay.node.runtimes.port import ContainerId
from plugbay.node.runtimes.process.launch import WRAPPER
from plugbay.node.runtimes.process.records import ProcessRecord

_PROGRAM: Final = os.fsencode(f"/{WRAPPER.parent.name}/{WRAPPER.name}")
"""An earlier plugbay may have been installed elsewhere."""


def find_wrappers(state_dir: Path, *, boot_id: str, proc_root: Path) -> dict[ContainerId, ProcessRecord]:
    """Every running wrapper of an instance below ``state_dir``, with the container's process. Reads all of ``/proc``.

    A wrapper that has not forked yet, or that has nothing left to wait for, stands for its container's process itself.
    """
    found = {}
    for pid in _pids(proc_root):
        if (container := _instance_of(pid, state_dir, proc_root)) is None:
            continue
        stat = read_stat(pid, proc_root=proc_root)
        if stat is None or stat.has_ended:
            continue
        process = next(_leaders(pid, proc_root), stat.identity)
        started_at = (proc_root / str(pid)).stat().st_mtime
        found[container] = ProcessRecord(boot_id, stat.identity, process, started_at)
    return found


def _pids(proc_root: Path) -> Iterator[int]:
    return (int(name) for name in os.listdir(proc_root) if name.isdigit())


def _instance_of(pid: int, state_dir: Path, proc_root: Path) -> ContainerId | None:
    try:
        words = (proc_root / str(pid) / "cmdline").read_bytes().split(b"\0")
        program = next(number for number, word in enumerate(words) if word.endswith(_PROGRAM))
        directory = Path(os.fsdecode(words[program + 1]))
    except (OSError, StopIteration, IndexError):
        return None  # it has just ended, is another user's, or is not a wrapper
    if directory.parent != state_dir or not _has_open(pid, directory, proc_root):
        return None
    return ContainerId(directory.name)


def _has_open(pid: int, directory: Path, proc_root: Path) -> bool:
    """Whether this directory is the one that the process works in: in another mount namespace the path is another's."""
    try:
        wanted = directory.stat()
    except FileNotFoundError:
        return True  # removed, and so nothing contradicts
    except OSError:
        return True
    for entry in (proc_root / str(pid) / "fd").iterdir():
        try:
            if os.path.samestat(entry.stat(), wanted):
                return True
        except OSError:
            continue
    return False


def _leaders(parent: int, proc_root: Path) -> Iterator[ProcessIdentity]:
    """The oldest child that leads a session: the container's process was forked before any command beside it."""
    stats = (read_stat(pid, proc_root=proc_root) for pid in _pids(proc_root))
    children = [each for each in stats if each is not None and each.parent == parent and not each.has_ended]
    for each in sorted(children, key=lambda stat: stat.identity.start_ticks):
        if each.session == each.identity.pid:
            yield each.identity
