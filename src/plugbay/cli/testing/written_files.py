"""Files that a command writes when a long run is over: what would be in the way is told of before the run."""

from __future__ import annotations

import os
from pathlib import Path

from plugbay.errors import PathUnusable


def check_writable(path: Path) -> None:
    """Do nothing if ``path`` can be written; it is not touched.

    Raises:
        PathUnusable: it is a directory, or cannot be made or written.
    """
    if path.is_dir():
        raise PathUnusable(str(path), "cannot be written: it is a directory")
    if not path.parent.is_dir():
        raise PathUnusable(str(path), f"cannot be written: {path.parent} is not a directory")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PathUnusable(str(path), "cannot be written: permission denied")


def write_text(path: Path, text: str) -> None:
    """Write a file; what is not UTF-8 is escaped.

    Raises:
        PathUnusable: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise PathUnusable(str(path), f"cannot be written: {error.strerror or error}") from error
