"""Processes by identity: a pid is used again, a pid together with its start time is not.

Source: Linux ``proc(5)``, ``pidfd_open(2)``; a pidfd becomes readable when its process ends, zombies included.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from plugbay.values import dataclass

_ENDED: Final = frozenset("ZXx")
"""States of a process that has ended: not yet reaped, or being removed."""
_STOPPED: Final = frozenset("Tt")
_READ_BYTES: Final = 4096
"""A stat line is 52 numbers of at most 20 digits, and a command of at most 64 bytes."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process of one boot, never another one.

    Attributes:
        start_ticks: clock ticks between boot and its start.
    """

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """The fields that we use of ``/proc/PID/stat``.

    Attributes:
        state: one letter; ``Z`` is a zombie.
    """

    identity: ProcessIdentity
    state: str
    parent: int
    group: int
    session: int

    @property
    def has_ended(self) -> bool:
        return self.state in _ENDED


def read_stat(pid: int, *, proc_root: Path) -> ProcessStat | None:
    """The process that has ``pid`` now, even a zombie; None if there is none."""
    try:
        return parse_stat(_read(proc_root / str(pid) / "stat"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def parse_stat(text: str) -> ProcessStat:
    """Parse one ``/proc/PID/stat``. The command in its second field may hold blanks and parentheses."""
    pid, _, rest = text.partition(" ")
    fields = rest.rpartition(")")[2].split()
    return ProcessStat(
        ProcessIdentity(int(pid), start_ticks=int(fields[19])),
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
    )


def is_running(process: ProcessIdentity, *, proc_root: Path) -> bool:
    """Whether this very process exists and has not ended."""
    stat = read_stat(process.pid, proc_root=proc_root)
    return stat is not None and stat.identity == process and not stat.has_ended


def session_members(leader: ProcessIdentity, *, proc_root: Path) -> list[ProcessStat]:
    """The running processes of the session that ``leader`` opened, whether or not the leader still runs.

    The kernel does not give out a number as long as it names a session; so when another process has the leader's
    pid, no process of the old session is left. A process that started before the leader is not of its session either.
    """
    now = read_stat(leader.pid, proc_root=proc_root)
    if now is not None and now.identity != leader:
        return []
    pids = (int(name) for name in os.listdir(proc_root) if name.isdigit())
    stats = (read_stat(pid, proc_root=proc_root) for pid in pids)
    return [
        stat
        for stat in stats
        if stat is not None
        and stat.session == leader.pid
        and stat.identity.start_ticks >= leader.start_ticks
        and not stat.has_ended
    ]


def signal_group(leader: ProcessIdentity, number: signal.Signals, *, proc_root: Path) -> None:
    """Send a signal to the process group that ``leader`` leads, or to ``leader`` if it has yet to open its session.

    No process gets the signal if the leader has ended.
    """
    if (pidfd := _open_pidfd(leader, proc_root=proc_root)) is None:
        return
    try:
        os.killpg(leader.pid, number)
    except ProcessLookupError:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, number)
    finally:
        os.close(pidfd)


def send_signal(process: ProcessIdentity, number: signal.Signals, *, proc_root: Path) -> None:
    """Send a signal to this very process; nothing happens when it has ended.

    Raises:
        PermissionError: it is another user's.
    """
    if (pidfd := _open_pidfd(process, proc_root=proc_root)) is None:
        return
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, number)
    finally:
        os.close(pidfd)


def is_stopped(process: ProcessIdentity, *, proc_root: Path) -> bool:
    """Whether it was stopped by a signal or a debugger, and does nothing until it is continued."""
    stat = read_stat(process.pid, proc_root=proc_root)
    return stat is not None and stat.identity == process and stat.state in _STOPPED


def with_variable(variable: str, *, since_ticks: int, proc_root: Path) -> list[ProcessIdentity]:
    """The running processes that were started with ``NAME=VALUE`` in their environment, or that a fork of such is.

    Args:
        since_ticks: older processes are not looked at.

    Raises:
        OSError: the system refuses to look, so that what runs is not known; for want of descriptors, say.
    """
    wanted = os.fsencode(variable)
    found = []
    for name in os.listdir(proc_root):
        if not name.isdigit():
            continue
        stat = read_stat(int(name), proc_root=proc_root)
        if stat is None or stat.has_ended or stat.identity.start_ticks < since_ticks:
            continue
        # Another user's, or it has ended.
        with suppress(PermissionError, FileNotFoundError, ProcessLookupError):
            if wanted in (proc_root / name / "environ").read_bytes().split(b"\0"):
                found.append(stat.identity)
    return found


def kill_session(leader: ProcessIdentity, *, proc_root: Path) -> list[ProcessIdentity]:
    """SIGKILL every process group of the session ``leader`` opened; returns the ending processes, to be waited for.

    Groups whose members all belong to another user by now are left alone.
    """
    members = session_members(leader, proc_root=proc_root)
    killed: set[int] = set()
    for group in {member.group for member in members}:
        try:
            _signal_group(group, signal.SIGKILL)
            killed.add(group)
        except PermissionError:
            continue
    return [member.identity for member in members if member.group in killed]


def _read(path: Path) -> str:
    # Nonblocking only for the tests' guard of the event loop: proc never makes a reader wait.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(file, _READ_BYTES).decode(errors="replace")
    finally:
        os.close(file)


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass


@contextmanager
def watch_end(process: ProcessIdentity, callback: Callable[[], object], *, proc_root: Path) -> Iterator[None]:
    """Call ``callback`` once, on the running loop, when ``process`` ends or if it has ended already.

    It need not be our child, and a child is not reaped. After the block there is no call.
    """
    loop = asyncio.get_running_loop()
    pidfd = _open_pidfd(process, proc_root=proc_root)
    if pidfd is None:
        handle = loop.call_soon(callback)
        try:
            yield
        finally:
            handle.cancel()
        return

    def ended() -> None:
        loop.remove_reader(pidfd)
        callback()

    loop.add_reader(pidfd, ended)
    try:
        yield
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


async def wait_end(process: ProcessIdentity, *, proc_root: Path) -> None:
    """Return when ``process`` has ended. Cancelling it does no harm."""
    ended = asyncio.Event()
    with watch_end(process, ended.set, proc_root=proc_root):
        await ended.wait()


async def wait_any_end(*processes: ProcessIdentity, proc_root: Path) -> None:
    """Return when the first of ``processes`` has ended. Cancelling it does no harm."""
    ended = asyncio.Event()
    with ExitStack() as stack:
        for each in processes:
            stack.enter_context(watch_end(each, ended.set, proc_root=proc_root))
        await ended.wait()


def _open_pidfd(process: ProcessIdentity, *, proc_root: Path) -> int | None:
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError as error:
        # EINVAL: the number has become that of a thread.
        if error.errno in (errno.ESRCH, errno.EINVAL):
            return None
        raise
    # Looked at after opening: from here on the descriptor cannot come to mean another process.
    if is_running(process, proc_root=proc_root):
        return pidfd
    os.close(pidfd)
    return None
