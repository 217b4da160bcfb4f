"""Runs a program that ends with all that descends from it: ``python -I -S tied.py PARENT TELLING PROGRAM ...``.

When the program has ended, when SIGTERM comes, and when the thread that started this process ends, whatever descends
from the program is killed, also what left its session and its parent. Then this process ends as the program did, with
its exit code or by its signal; by SIGKILL if that was the end of it. So nothing outlives a process that was itself
killed, and could end nothing.

The program leads a session and a group of its own. Its process is written to the descriptor TELLING, unless that is
``-``, as ``PID START_TICKS``. A script of its own, without a package of plugbay: it costs 15 ms, and a process with
threads cannot do this between fork and exec.

Source: Linux ``prctl(2)``, ``PR_SET_PDEATHSIG``, which an exec keeps, and ``PR_SET_CHILD_SUBREAPER``.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import NoReturn
else:
    import _signal  # `signal` would import enum

if TYPE_CHECKING or __package__:
    from plugbay.kernel.descendants import control_process, keep_orphans, kill_descendants, reap_orphans, start_ticks
else:  # as a program, which knows no packages
    sys.path.append(os.path.dirname(__file__))
    from descendants import control_process, keep_orphans, kill_descendants, reap_orphans, start_ticks

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_CANNOT_RUN = 126
_NOT_FOUND = 127
_SIGNALLED = 128
_AWAITED = (_signal.SIGTERM, _signal.SIGCHLD)


def main(parent: int, telling: int | None, program: list[str]) -> int:
    """Run the program to its end; returns its exit code, unless a signal ended it.

    Args:
        parent: the process that started this one.
        telling: the descriptor to which the program's process is told.
    """
    keep_orphans()
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)  # where it is ignored, no end is told
    former = _signal.pthread_sigmask(_signal.SIG_BLOCK, _AWAITED)
    control_process(_PR_SET_PDEATHSIG, _signal.SIGTERM)
    if os.getppid() != parent:  # it had ended before
        return end_as(_signal.SIGKILL)
    own = os.getpid()
    pid = os.fork()
    if pid == 0:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, former)
        become(program, parent=own, telling=telling)
    try:
        if telling is not None:
            os.write(telling, b"%d %d" % (pid, start_ticks(pid)))
            os.close(telling)
        status = until_ended(pid)
    finally:
        if has_children():
            kill_descendants()
            reap_orphans(set())
    return end_as(status)


def become(program: list[str], *, parent: int, telling: int | None) -> NoReturn:
    """Become the program. If it cannot be run, end with the exit code that a shell has for that."""
    code = _CANNOT_RUN
    try:
        os.setsid()
        control_process(_PR_SET_PDEATHSIG, _signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(code)
        if telling is not None:
            os.close(telling)
        for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # Python ignores them, and programs would
            _signal.signal(number, _signal.SIG_DFL)
        os.execvp(program[0], program)
    except OSError as error:
        os.write(2, f"{program[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
        code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _CANNOT_RUN
    finally:
        os._exit(code)


def until_ended(pid: int) -> int:
    """Wait for the program, and reap what it leaves; returns how it ended, or as if killed when SIGTERM comes."""
    while _signal.sigwait(_AWAITED) == _signal.SIGCHLD:
        while has_children() and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == pid:
                return ended[1]
    return _signal.SIGKILL


def has_children() -> bool:
    """Whether there are any, and so whether there are descendants: the orphans among them become children."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def end_as(status: int) -> int:
    """The exit code of a process that ended so; a signal ends this one, too, and leaves no core of it."""
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    control_process(_PR_SET_DUMPABLE, 0)
    if number != _signal.SIGKILL:
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    return _SIGNALLED + number


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), None if sys.argv[2] == "-" else int(sys.argv[2]), sys.argv[3:]))
