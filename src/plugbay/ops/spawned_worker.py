"""The start of a program of ours in a process of its own, before there is an event loop or with one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class SpawnedWorker(NamedTuple):
    """A program that has been started, with pipes to its standard input and from its standard output.

    A `WorkerProcess` takes charge of it, and ends it; else it ends when this process does.

    Attributes:
        lifeline: it dies when its end of this pipe sees ours closed.
    """

    process: subprocess.Popen[bytes]
    lifeline: int


def spawn_worker(program: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> SpawnedWorker:
    """Start Python with ``program``, without `site`; its first argument is the descriptor of its lifeline.

    It takes a millisecond or two, and needs no event loop: the program can start while this process reads its modules.

    Args:
        environ: its whole environment; None for ours.

    Raises:
        OSError: no process can be started: there are too many, or no memory.
    """
    theirs, ours = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(program), str(theirs), *arguments],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(theirs,),
            start_new_session=True,  # Ctrl-C is for us
            env=environ,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return SpawnedWorker(process, ours)
