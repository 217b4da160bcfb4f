"""The terminal of this process, lent to a command in a container."""

from __future__ import annotations

import os
import signal
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_SIGNALLED: Final = 128
"""A shell adds this to the number of the signal that ended a program."""


@contextmanager
def raw_terminal(fd: int) -> Iterator[None]:
    """Pass every key on, Ctrl-C too; on every way out but SIGKILL the terminal is as it was before."""
    before = termios.tcgetattr(fd)
    handlers = {number: signal.signal(number, _leave) for number in _ENDING}
    try:
        tty.setraw(fd)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def window_changes() -> Iterator[int]:
    """A file descriptor that becomes readable when the terminal's window has got another size."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    handler = signal.signal(signal.SIGWINCH, lambda *_: None)
    try:
        yield read
    finally:
        signal.signal(signal.SIGWINCH, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(read)
        os.close(write)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(_SIGNALLED + number)
