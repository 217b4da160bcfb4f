"""Messages about what a command waits for, on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from plugbay.cli.printing.output import show_note

_FIRST_S: Final = 1.0
_AGAIN_S: Final = 10.0
_MANY: Final = 5


@contextmanager
def telling(what: Callable[[], str]) -> Iterator[None]:
    """Print on standard error what the block waits for: after a second, then every ten seconds.

    This happens only on a terminal: scripts take output on standard error for a problem.

    Args:
        what: the sentence as it is then; called by another thread.
    """
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_tell, args=(what, done), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def few(names: list[str]) -> str:
    """The first of many names, and how many there are beside them."""
    more = len(names) - _MANY
    return ", ".join(names[:_MANY]) + (f" and {more} more" if more > 0 else "")


def _tell(what: Callable[[], str], done: threading.Event) -> None:
    delay_s = _FIRST_S
    while not done.wait(delay_s):
        show_note(what())
        delay_s = _AGAIN_S
