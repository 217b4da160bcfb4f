"""Printing: pages, notes and errors."""

from __future__ import annotations

import os
import sys
from typing import Final

from plugbay.errors.wording import on_one_line, printable

PROGRAM: Final = "plugbay"


def show(text: str) -> None:
    """Print ``text``, which brings its line ends, at once: a user may be watching."""
    sys.stdout.write(text)
    sys.stdout.flush()


def discard_stdout() -> None:
    """Drop output that could not be written: Python would try, and fail, once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_page(text: str) -> None:
    """`show` a table or a page for users: on a terminal in colour."""
    # Imported here: only tables pay for it.
    from plugbay.cli.printing.colour import is_wanted, painted

    show(painted(text) if is_wanted(sys.stdout, os.environ) else text)


def show_error(sentence: object) -> None:
    """Say what went wrong; a line for each line of ``sentence``."""
    for line in str(sentence).splitlines() or [""]:
        _tell(f"{PROGRAM}: error: {printable(line)}")


def show_note(sentence: object) -> None:
    """Print a note on standard error, where it is not taken for output: one line, whatever is in it."""
    _tell(on_one_line(str(sentence)))


def _tell(line: str) -> None:
    """Write a line in one piece: other programs may write to the same terminal."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
