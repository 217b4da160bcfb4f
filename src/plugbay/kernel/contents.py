"""Tell by times and sizes whether the files right in a directory have changed."""

from __future__ import annotations

import os
import stat
import time
from typing import Final, TypeAlias

_STEADY_NS: Final = 100_000_000
"""Times of files are as coarse as 10 ms: a file written so lately may be written again and look the same."""
_REMEMBERED: Final = 4096

_Stamp: TypeAlias = tuple[int, int, int]


class Contents:
    """Tells whether a file that was open for writing has changed since it was last reported.

    Without it, a program that opens a file it watches for writing, and writes nothing, would wake itself for ever.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Stamp] = {}

    def is_changed(self, directory: str, name: str) -> bool:
        try:
            found = os.lstat(os.path.join(directory, name))
        except OSError:
            return False  # another event reports that it is gone
        if not stat.S_ISREG(found.st_mode):
            return False
        stamp = found.st_ino, found.st_size, found.st_mtime_ns
        is_known = self._known.pop(name, None) == stamp
        self._known[name] = stamp
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return not is_known or 0 <= time.time_ns() - found.st_mtime_ns < _STEADY_NS


def has_nodes(directory: str) -> bool:
    """Whether there are device nodes right in ``directory``."""
    try:
        with os.scandir(directory) as entries:
            return any(_is_node(entry) for entry in entries)
    except OSError:
        return False


def stamps_in(directory: str) -> frozenset[object]:
    """The names in ``directory``, and for regular files the times and sizes that change with their content.

    Raises:
        OSError: it cannot be listed.
    """
    with os.scandir(directory) as entries:
        return frozenset((entry.name, _stamp_of(entry)) for entry in entries)


def _is_node(entry: os.DirEntry[str]) -> bool:
    # These three are known without a look at the inode.
    if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False) or entry.is_symlink():
        return False
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _stamp_of(entry: os.DirEntry[str]) -> _Stamp | None:
    try:
        found = entry.stat(follow_symlinks=False) if entry.is_file(follow_symlinks=False) else None
    except OSError:
        return None
    return None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)
