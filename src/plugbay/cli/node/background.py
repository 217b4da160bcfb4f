"""``plugbay node up -d``: the node in a process of its own, which has a log file in place of a terminal."""

from __future__ import annotations

import logging
import logging.handlers
import os
import signal
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Final

from plugbay.cli.printing.output import show

LOG: Final = "node.log"
"""The name of the log, below the node's root."""
_LOG_BYTES: Final = 10 * 1024 * 1024
_OLD_LOGS: Final = 4
"""10 MiB and five files are a kubelet's limits for the log of a container."""
_READY: Final = b"r"


def up_in_background(root: Path, run: Callable[[Callable[[], None]], int], *, root_option: str) -> int:
    """Run a node in a child process; returns once it answers, with 0, or has ended, with its exit code.

    Until then the output of the child is printed here. Afterwards the child logs to `LOG`.

    Args:
        run: runs the node; calls what it is given when the node answers.
        root_option: how a command line names this root; see `plugbay.cli.arguments.roots.root_option`.
    """
    said, says = os.pipe()
    told, tells = os.pipe()
    sys.stdout.flush()
    child = os.fork()  # before there are threads
    if child == 0:
        os.close(said)
        os.close(told)
        _leave_the_terminal(says)
        return run(lambda: _be_ready(root / LOG, tells))
    os.close(says)
    os.close(tells)
    try:
        with open(said, "rb", buffering=0) as news:
            while words := news.read(65536):
                os.write(2, words)
        if os.read(told, 1) != _READY:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except KeyboardInterrupt:  # SIGTERM too, by now
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(told)
    show(f"node is up (pid {child}); its log is {root / LOG}\nstop it with: plugbay node down{root_option}\n")
    return 0


def _leave_the_terminal(says: int) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, stream in ((nothing, 0), (says, 1), (says, 2)):
        os.dup2(source, stream)
    os.close(nothing)
    os.close(says)


def _be_ready(log: Path, tells: int) -> None:
    """Send all further output to the log, and let the command that started us end."""
    log_file = _LogFile(log, maxBytes=_LOG_BYTES, backupCount=_OLD_LOGS)
    top = logging.getLogger()
    log_file.setFormatter(top.handlers[0].formatter)
    top.handlers[:] = [log_file]
    descriptor = _open(str(log), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(tells, _READY)
    os.close(tells)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)  # which ends the pipe
    os.close(descriptor)


class _LogFile(logging.handlers.RotatingFileHandler):
    """A log that only its owner reads, and that does not grow without end."""

    def _open(self) -> TextIOWrapper:
        return TextIOWrapper(open(self.baseFilename, "ab", opener=_open), encoding="utf-8")


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
