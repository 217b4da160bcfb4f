"""Control groups: where their hierarchies are mounted, what one went through, and how it is emptied and removed.

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
_RETRY_S: Final = 0.02
"""A process that has ended leaves its cgroup a little later, and nothing tells of it in version 1."""


def hierarchies(*, proc_root: Path) -> list[Path]:
    """Where each hierarchy is mounted, of version 1 and 2; more than once if it is.

    Raises:
        OSError: ``proc_root`` is not a proc file system.
    """
    return [path for path, kind in mounted(proc_root=proc_root) if kind in _KINDS]


def remove_cgroup(name: str, *, proc_root: Path) -> list[Path]:
    """Remove the cgroup ``name``, seen from the roots, with all below it; one that is gone is no error.

    Never a mount point's own directory, nor beside it: ``name`` is words, and what is in it are cgroups only.

    Returns:
        Those that stay, as processes are in them.
    """
    if any(word in ("", ".", "..") for word in name.split("/")):
        raise ValueError(f"{name!r} is not the name of a cgroup")
    return [each for each in _subtrees(name, hierarchies(proc_root=proc_root)) if not _remove(each)]


async def clear_cgroup(name: str, *, proc_root: Path, within_s: float) -> None:
    """End what runs in the cgroup ``name``, and remove it as `remove_cgroup` does.

    Raises:
        TimeoutError: it is not gone within ``within_s`` seconds, though killed.
    """
    async with asyncio.timeout(within_s):
        await _end_processes(name, proc_root)
        while await asyncio.to_thread(remove_cgroup, name, proc_root=proc_root):
            await asyncio.sleep(_RETRY_S)
            await _end_processes(name, proc_root)


async def end_processes(name: str, *, proc_root: Path, within_s: float) -> None:
    """Kill what runs in the cgroup ``name`` and below it, and wait for its end.

    Raises:
        TimeoutError: something still runs after ``within_s`` seconds.
    """
    async with asyncio.timeout(within_s):
        await _end_processes(name, proc_root)


async def _end_processes(name: str, proc_root: Path) -> None:
    for each in await asyncio.to_thread(kill_processes, name, proc_root=proc_root):
        await wait_end(each, proc_root=proc_root)


def kill_processes(path: str, *, proc_root: Path) -> frozenset[ProcessIdentity]:
    """Kill what runs in the cgroup ``path``, seen from the roots, and below it; nothing happens when there is none.

    What those processes make meanwhile is killed too. Processes outside of our PID namespace we cannot name.

    Returns:
        Who was killed; they may still be ending.
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
        for directory, _, _ in os.walk(root / path.lstrip("/")):
            with contextlib.suppress(OSError):  # it has just gone
                yield from map(int, (Path(directory) / "cgroup.procs").read_text().split())


def oom_kills(path: str, *, proc_root: Path) -> int:
    """How many processes the kernel has killed for want of memory in the cgroup ``path``, seen from the roots.

    In version 2 those of the cgroups below it count, also of such as were removed. None where there is no cgroup.
    """
    counts = (
        _counter(root / path.lstrip("/") / name) for root in hierarchies(proc_root=proc_root) for name in _OOM_FILES
    )
    return max(counts, default=0)


def accounts_swap(*, proc_root: Path) -> bool:
    """Whether cgroups can be told how much they may swap; kernels are built and started without that, too."""
    # In version 2 the root of all has no such file, what is below it has.
    places = ("memory.memsw.limit_in_bytes", "memory.swap.max", "*/memory.swap.max")
    roots = hierarchies(proc_root=proc_root)
    return any(True for root in roots for place in places for _ in root.glob(place))


def _counter(file: Path) -> int:
    try:
        words = file.read_text().split()
    except OSError:  # another hierarchy, or gone
        return 0
    return int(words[words.index(_OOM_KILL) + 1]) if _OOM_KILL in words else 0


def _subtrees(name: str, roots: Iterable[Path]) -> Iterable[Path]:
    """Deepest first."""
    for root in roots:
        for directory, _, _ in os.walk(root / name, topdown=False):
            yield Path(directory)


def _remove(cgroup: Path) -> bool:
    try:
        cgroup.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
            return False
        raise
    return True
