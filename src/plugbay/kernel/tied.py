"""Become a program that is killed with the thread that started it: ``python -I -S tied.py PARENT PROGRAM ...``.

So no program outlives a process that was itself killed, and could end nothing. A script of its own, without a module of
plugbay: it costs 15 ms, and a process with threads cannot do this between fork and exec.

Source: Linux ``prctl(2)``, ``PR_SET_PDEATHSIG``, which an exec keeps.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_CANNOT_RUN = 126
_NOT_FOUND = 127


def main(parent: int, program: list[str]) -> int:
    """Become the program. Returns only if it cannot be run, with the exit code that a shell has for that.

    Args:
        parent: the process that started this one.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it had ended before
        return 128 + signal.SIGKILL
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and programs would
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(program[0], program)
    except OSError as error:
        sys.stderr.write(f"{program[0]}: {error.strerror}\n")
        return _NOT_FOUND if isinstance(error, FileNotFoundError) else _CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
