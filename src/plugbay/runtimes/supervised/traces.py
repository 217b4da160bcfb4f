"""Wrappers that run although no record tells of them: they have the directory of their instance as an argument."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from plugbay.kernel.processes import ProcessIdentity, ProcessStat, read_stat
from plugbay.runtimes.port import ContainerId
from plugbay.runtimes.supervised.launch import WRAPPER
from plugbay.runtimes.supervised.records import ProcessRecord, is_container_id

_PROGRAMS: Final = (os.fsencode(f"/{WRAPPER.parent.name}/{WRAPPER.name}"), b"/process/wrapper.py")
"""Endings of a wrapper program's path. An earlier plugbay may lie elsewhere, and had the second name up to 0.1."""
_PIDS: Final = "ns/pid"
_REPORT: Final = "fd/1"
"""A wrapper's pipe to its node, which it keeps until the command runs."""
_NOT_OURS: Final = (FileNotFoundError, ProcessLookupError, PermissionError)
"""The answers of ``/proc`` for a process that has just ended, or that belongs to another user."""


def find_wrappers(state_dir: Path, *, boot_id: str, proc_root: Path) -> dict[ContainerId, ProcessRecord]:
    """Every running wrapper of an instance below ``state_dir``, with the container's process. Reads all of ``/proc``.

    A wrapper that has not forked yet, or that has nothing left to wait for, stands for its container's process itself.
    Another user's process, or one that a container with pids of its own started, is not a wrapper, whatever it says.

    Raises:
        OSError: the system has no room for the search, and a wrapper may have been missed.
    """
    found = {}
    for pid in _pids(proc_root):
        try:
            traced = _wrapper(pid, state_dir, proc_root)
        except _NOT_OURS:
            continue
        if traced is not None:
            container, wrapper, started_at = traced
            process = next(_leaders(pid, proc_root), wrapper)
            found[container] = ProcessRecord(boot_id, wrapper, process, started_at)
    return found


def has_lost_program(wrapper: ProcessIdentity, *, proc_root: Path) -> bool:
    """Whether the program of a running wrapper was removed, as when another version of plugbay is installed.

    Such a wrapper cannot load its part for commands beside the container.
    """
    try:
        words = _words_of(wrapper.pid, proc_root)
    except OSError:
        return False  # it has just ended
    return words is not None and not words[0].exists()


def is_starting(wrapper: ProcessIdentity, *, proc_root: Path) -> bool:
    """Whether a wrapper has yet to run its container's command; without its node it never will, and ends.

    The container's process looks like a wrapper until it runs the command, and may end later than its wrapper.
    """
    try:
        report = os.readlink(proc_root / str(wrapper.pid) / _REPORT)
        return report.startswith("pipe:") and _words_of(wrapper.pid, proc_root) is not None
    except _NOT_OURS:
        return False


def _pids(proc_root: Path) -> Iterator[int]:
    return (int(name) for name in os.listdir(proc_root) if name.isdigit())


def _wrapper(pid: int, state_dir: Path, proc_root: Path) -> tuple[ContainerId, ProcessIdentity, float] | None:
    """The instance of a wrapper, which process it is, and when it started; None if the process is not a wrapper."""
    if (words := _words_of(pid, proc_root)) is None:
        return None
    _, directory = words
    if directory.parent != state_dir or not is_container_id(directory.name):
        return None
    itself = proc_root / str(pid)
    owned = itself.stat()
    if owned.st_uid != os.geteuid() or os.readlink(itself / _PIDS) != os.readlink(proc_root / "self" / _PIDS):
        return None
    stat = read_stat(pid, proc_root=proc_root)
    if stat is None or stat.has_ended or not _has_open(pid, directory, proc_root):
        return None
    return ContainerId(directory.name), stat.identity, owned.st_mtime


def _words_of(pid: int, proc_root: Path) -> tuple[Path, Path] | None:
    """The program of a wrapper, and the directory of its instance; None if the process is not a wrapper."""
    words = (proc_root / str(pid) / "cmdline").read_bytes().split(b"\0")
    for word, after in pairwise(words):
        if word.endswith(_PROGRAMS):
            return Path(os.fsdecode(word)), Path(os.fsdecode(after))
    return None


def _has_open(pid: int, directory: Path, proc_root: Path) -> bool:
    """Whether this directory is the one that the process works in: in another mount namespace the path is another's."""
    try:
        wanted = directory.stat()
    except OSError:
        return True  # removed or closed to us, and so nothing contradicts
    for entry in (proc_root / str(pid) / "fd").iterdir():
        try:
            if os.path.samestat(entry.stat(), wanted):
                return True
        except OSError:
            continue
    return False


def _leaders(parent: int, proc_root: Path) -> Iterator[ProcessIdentity]:
    """The oldest child that leads a session: the container's process was forked before any command beside it."""
    stats = (_stat(pid, proc_root) for pid in _pids(proc_root))
    children = [each for each in stats if each is not None and each.parent == parent and not each.has_ended]
    for each in sorted(children, key=lambda stat: stat.identity.start_ticks):
        if each.session == each.identity.pid:
            yield each.identity


def _stat(pid: int, proc_root: Path) -> ProcessStat | None:
    try:
        return read_stat(pid, proc_root=proc_root)
    except _NOT_OURS:
        return None
