"""Read the input of a command: a file by its name, or standard input for ``-``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from plugbay.errors import PathUnusable
from plugbay.kernel.files import MAX_BYTES, read_all, read_bytes

STDIN: Final = "-"


def read_input(file: str, *, limit: int = MAX_BYTES) -> bytes:
    """Read all of ``file``.

    Args:
        limit: the most bytes that it may hold.

    Raises:
        PathUnusable: it cannot be read, or holds more.
    """
    if file != STDIN:
        return read_file(Path(file), limit=limit)
    try:
        return read_all(sys.stdin.buffer, limit=limit)
    except OSError as error:
        raise _unreadable(input_name(file), error) from error


def read_file(path: Path, *, limit: int = MAX_BYTES) -> bytes:
    """Read a file as `read_input` does, except that ``-`` is a name like others."""
    try:
        return read_bytes(path, limit=limit)
    except OSError as error:
        raise _unreadable(str(path), error) from error


def input_name(file: str) -> str:
    """The name of ``file`` in messages."""
    return "standard input" if file == STDIN else file


def _unreadable(name: str, error: OSError) -> PathUnusable:
    return PathUnusable(name, f"cannot be read: {error.strerror}")
