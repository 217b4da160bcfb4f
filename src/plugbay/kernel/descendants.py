"""Finds and kills all that descends from this process, also what left its session; part of programs of one file.

As a subreaper this process becomes the parent of every descendant whose parent ends, so that it loses sight of none.
The programs that load this know no packages, and it imports next to nothing.

Source: Linux ``prctl(2)``, ``proc(5)``.
"""

from __future__ import annotations

import errno
import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # `signal` would import enum

_PR_SET_CHILD_SUBREAPER = 36
_FREEZES = 20
"""The number of looks for descendants that still run, before any is killed."""
_STOPPED = "Tt"
_START = 19
"""The field of `read_stat` with the start of the process, in clock ticks since the boot."""


def keep_orphans() -> None:
    """Become the parent of descendants whose parent ends."""
    control_process(_PR_SET_CHILD_SUBREAPER, 1)


def control_process(option: int, value: int) -> None:
    """Set one of the options of ``prctl(2)`` that take a number."""
    import _ctypes  # `ctypes` would import ten more modules

    this_program = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # as `ctypes` does
    _ctypes.call_function(_ctypes.dlsym(this_program, "prctl"), (option, value, 0, 0, 0))


def reap_orphans(kept: set[int]) -> None:
    """Reap every child that has ended but those in ``kept``, whose numbers are still used."""
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        while ended is not None and ended.si_pid not in kept:
            os.waitpid(ended.si_pid, 0)
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return
    if ended is not None:  # the kernel always names the same first
        for pid, (state, parent, *_) in stats().items():
            if parent == str(os.getpid()) and state == "Z" and pid not in kept:
                os.waitpid(pid, 0)


def kill_descendants() -> None:
    """Kill all that descends from this process, and wait for its end; what has become another user's is let be.

    All are stopped first: a process that starts another when it sees a third one end would go on for ever. All are
    killed before the end of one is waited for: one that another traces may end after that only.
    """
    spared: set[int] = set()
    while found := living_descendants(os.getpid(), every := freeze_descendants()) - spared:
        for until_ended in (False, True):
            for pid in found - spared:
                if not signal_child(pid, int(every[pid][_START]), _signal.SIGKILL, until_ended=until_ended):
                    spared.add(pid)


def freeze_descendants() -> dict[int, list[str]]:
    """Stop all that descends from this process; returns what `stats` told last.

    A process that is starting another one stops a little later, so this looks until all have. Some may not: those that
    wait for a disk, or that start others faster than they are found. They are killed as they are, and looked for anew.
    """
    refused: set[int] = set()
    for _ in range(_FREEZES):
        every = stats()
        found = living_descendants(os.getpid(), every) - refused
        running = [pid for pid in found if every[pid][0] not in _STOPPED]
        if not running:
            break
        for pid in running:
            if not signal_child(pid, int(every[pid][_START]), _signal.SIGSTOP):
                refused.add(pid)
        os.sched_yield()
    return every


def signal_child(pid: int, ticks: int, number: int, *, until_ended: bool = False) -> bool:
    """Send a signal to the descendant that started at ``ticks``, if it still runs; False if that is forbidden.

    Its number may belong to another process by now, since time has passed while others were ended.

    Raises:
        OSError: the system has no room to find out, and the process may run.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EINVAL):
            return True  # it has just ended, or the number has become a thread's
        raise
    try:
        if start_ticks(pid) == ticks:
            _signal.pidfd_send_signal(descriptor, number)
            if until_ended:
                end = select.poll()
                end.register(descriptor, select.POLLIN)
                end.poll()
    except PermissionError:
        return False
    except (FileNotFoundError, ProcessLookupError):
        pass
    finally:
        os.close(descriptor)
    return True


def living_descendants(ancestor: int, every: dict[int, list[str]]) -> set[int]:
    children: dict[str, list[int]] = {}
    living = set()
    for pid, (state, parent, *_) in every.items():
        children.setdefault(parent, []).append(pid)
        if state != "Z":
            living.add(pid)
    found: set[int] = set()
    pending = [ancestor]
    while pending:
        below = children.get(str(pending.pop()), [])
        found.update(below)
        pending += below
    return found & living


def kill_session(leader: int) -> None:
    """Kill what the leader left. It is still a zombie, so that no other process has its number."""
    kill_group(leader)
    for state, _parent, group, session, *_ in stats().values():
        if session == str(leader) and state != "Z":
            kill_group(int(group))


def sessions_below(ancestor: int) -> set[int]:
    """The sessions of all descendants but the one that ``ancestor`` leads."""
    every = stats()
    return {int(every[pid][3]) for pid in living_descendants(ancestor, every)} - {ancestor}


def kill_group(group: int) -> None:
    try:
        os.killpg(group, _signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # all gone, or all of another user by now


def start_ticks(pid: int) -> int:
    return int(read_stat(str(pid))[_START])


def stats() -> dict[int, list[str]]:
    """The fields of every process, as `read_stat` reads them."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found[int(entry)] = read_stat(entry)
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def read_stat(pid: str) -> list[str]:
    """State, parent, group, session and so on: the fields behind the command, which may hold blanks and parentheses."""
    stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    try:
        return os.read(stat, 4096).decode(errors="replace").rpartition(")")[2].split()
    finally:
        os.close(stat)
