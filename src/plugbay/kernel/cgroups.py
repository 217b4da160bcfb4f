"""Control groups: find their hierarchies, count a cgroup's out-of-memory kills, empty and remove it.

Source: Linux ``cgroups(7)``, ``proc_pid_mountinfo(5)``, ``admin-guide/cgroup-v1/memory.rst``, ``cgroup-v2.rst``.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from plugbay.kernel.mounts import mounted
from plugbay.kernel.processes import ProcessIdentity, read_stat, wait_end

_KINDS: Final = frozenset({"cgroup", "cgroup2"})
_OOM_FILES: Final = ("memory.oom_control", "memory.events")
_OOM_KILL: Final = "oom_kill"
_GONE: Final = frozenset({errno.ENOENT, errno.ENODEV, errno.ESRCH})
"""Errors that show that a cgroup, or a process in it, has just gone. Other errors do not tell whether processes run."""
_THREADED: Final = errno.EOPNOTSUPP
"""Threaded cgroups do not list processes: the domain above does, with all that is below it (``cgroup-v2.rst``)."""
_RETRY_S: Final = 0.02
"""A process that has ended leaves its cgroup a little later, and version 1 does not report it."""


def hierarchies(*, proc_root: Path) -> list[Path]:
    """The places where hierarchies of version 1 and 2 are mounted; one hierarchy may have several.

    Raises:
        OSError: ``proc_root`` is not a proc file system.
    """
    return [path for path, kind in mounted(proc_root=proc_root) if kind in _KINDS]


def remove_cgroup(name: str, *, proc_root: Path) -> list[Path]:
    """Remove the cgroup ``name``, seen from the roots, with all below it. A cgroup that is gone is not an error.

    It never removes a mount point's own directory, nor one beside it: ``name`` is words, and contains cgroups only.

    Returns:
        The cgroups that stay, because processes are in them.

    Raises:
        OSError: the system refuses to look, so that what is there is not known; for want of descriptors, say.
    """
    if any(word in ("", ".", "..") for word in name.split("/")):
        raise ValueError(f"{name!r} is not the name of a cgroup")
    return [each for each in _subtrees(name, hierarchies(proc_root=proc_root)) if not _remove(each)]


async def clear_cgroup(name: str, *, proc_root: Path, within_s: float) -> None:
    """End the processes in the cgroup ``name``, and remove it as `remove_cgroup` does.

    Raises:
        TimeoutError: it is not gone within ``within_s`` seconds, though killed.
    """
    async with asyncio.timeout(within_s):
        await _end_processes(name, proc_root)
        while await asyncio.to_thread(remove_cgroup, name, proc_root=proc_root):
            await asyncio.sleep(_RETRY_S)
            await _end_processes(name, proc_root)


async def end_processes(name: str, *, proc_root: Path, within_s: float) -> None:
    """Kill the processes in the cgroup ``name`` and below it, and wait for their end.

    Raises:
        TimeoutError: something still runs after ``within_s`` seconds.
    """
    async with asyncio.timeout(within_s):
        await _end_processes(name, proc_root)


async def _end_processes(name: str, proc_root: Path) -> None:
    for each in await asyncio.to_thread(kill_processes, name, proc_root=proc_root):
        await wait_end(each, proc_root=proc_root)


def kill_processes(path: str, *, proc_root: Path) -> frozenset[ProcessIdentity]:
    """Kill the processes in the cgroup ``path``, seen from the roots, and below it; nothing happens if there are none.

    Processes that those start meanwhile are killed too. Processes outside of our PID namespace cannot be named.

    Returns:
        The processes that were killed; they may still be ending.

    Raises:
        OSError: the system refuses to look, so that what runs is not known; for want of descriptors, say.
    """
    if not path.strip("/") or ".." in path.split("/"):
        raise ValueError(f"{path!r} is not the path of a cgroup below the root")
    killed: set[ProcessIdentity] = set()
    while found := set(_processes(path, proc_root)) - killed:
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        killed |= found
    return frozenset(killed)


def _processes(path: str, proc_root: Path) -> Iterator[ProcessIdentity]:
    for pid in _pids(path, proc_root):
        # Processes of other PID namespaces are listed as 0, which to kill(2) is our own group.
        if pid > 0 and (stat := read_stat(pid, proc_root=proc_root)) is not None and not stat.has_ended:
            yield stat.identity


def _pids(path: str, proc_root: Path) -> Iterator[int]:
    for root in hierarchies(proc_root=proc_root):
        for directory, _, _ in os.walk(root / path.lstrip("/"), onerror=_raise_unless_gone):
            try:
                listing = (Path(directory) / "cgroup.procs").read_text()
            except OSError as error:
                if error.errno != _THREADED:
                    _raise_unless_gone(error)
                continue
            yield from map(int, listing.split())


def _raise_unless_gone(error: OSError) -> None:
    if error.errno not in _GONE:
        raise error


def oom_kills(path: str, *, proc_root: Path) -> int:
    """The number of processes that the kernel killed for want of memory in the cgroup ``path``, seen from the roots.

    In version 2 the kills in cgroups below it count too, also in removed ones. None if there is no cgroup.

    Raises:
        OSError: the system refuses to look, for want of descriptors, say.
    """
    counts = (
        _counter(root / path.lstrip("/") / name) for root in hierarchies(proc_root=proc_root) for name in _OOM_FILES
    )
    return max(counts, default=0)


def accounts_swap(*, proc_root: Path) -> bool:
    """Whether cgroups can have a limit for swap; some kernels are built or started without such limits."""
    # In version 2 the root cgroup has no such file; the cgroups below it have one.
    places = ("memory.memsw.limit_in_bytes", "memory.swap.max", "*/memory.swap.max")
    roots = hierarchies(proc_root=proc_root)
    return any(True for root in roots for place in places for _ in root.glob(place))


def _counter(file: Path) -> int:
    try:
        words = file.read_text().split()
    except OSError as error:
        _raise_unless_gone(error)  # another hierarchy has no such file
        return 0
    return int(words[words.index(_OOM_KILL) + 1]) if _OOM_KILL in words else 0


def _subtrees(name: str, roots: Iterable[Path]) -> Iterable[Path]:
    """The directory and all below it, deepest first."""
    for root in roots:
        for directory, _, _ in os.walk(root / name, topdown=False, onerror=_raise_unless_gone):
            yield Path(directory)


def _remove(cgroup: Path) -> bool:
    try:
        cgroup.rmdir()
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
            return False
        _raise_unless_gone(error)
    return True
