"""Become a program that sees a directory at another place: ``python -m plugbay.kernel.enclosed DIR PLACE PROGRAM ...``.

A program of its own, because a process with threads, or one that others need, cannot enter a mount namespace.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plugbay.kernel.private_mounts import enter_private_mounts, show_at

CANNOT_RUN: Final = 126
"""The exit code of a shell for a program that is not one."""
NOT_FOUND: Final = 127
"""The exit code of a shell for a program that is not there."""
NO_MOUNTS: Final = 125
"""The exit code of `main` when the kernel allows no mounts."""
_PROC: Final = Path("/proc")
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)


def become(program: Sequence[str], *, directory: Path, place: Path, proc_root: Path = _PROC) -> OSError:
    """Become ``program``, to which ``directory`` lies at ``place``. Returns only if it cannot be run: why.

    Raises:
        OSError: the kernel allows no mounts.
    """
    enter_private_mounts(proc_root=proc_root)
    show_at(directory, place, proc_root=proc_root)
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(program[0], list(program))
    except OSError as error:
        return error


def exit_code_of(error: OSError) -> int:
    """The exit code of a shell for a program that cannot be run."""
    return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN


def main(words: Sequence[str]) -> int:
    """`become`, with the words of a command line."""
    directory, place, *program = words
    try:
        error = become(program, directory=Path(directory), place=Path(place))
    except OSError as refused:
        problem = f"{place} cannot be mounted in a namespace of its own ({refused.strerror})"
        sys.stderr.write(f"{problem}; it takes root, or user namespaces for this user\n")
        return NO_MOUNTS
    sys.stderr.write(f"{program[0]}: {error.strerror}\n")
    return exit_code_of(error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
