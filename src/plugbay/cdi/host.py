"""What the host has at a path, as far as device nodes go."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HostNode:
    """A device node. ``type`` is ``b``, ``c`` or ``p``; ``mode`` holds the permission bits alone."""

    type: str
    major: int
    minor: int
    mode: int


def host_node(path: str, *, root: Path) -> HostNode | None:
    """The node at ``path`` below ``root``; None when something else is there. Symbolic links are not followed.

    Raises:
        OSError: nothing is there that can be looked at.
    """
    try:
        found = os.lstat(root / path.lstrip("/"))
    except ValueError as error:  # no path holds a NUL, or half of a character
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path) from error
    kind = node_type(found.st_mode)
    if kind is None:
        return None
    return HostNode(kind, os.major(found.st_rdev), os.minor(found.st_rdev), stat.S_IMODE(found.st_mode))


def node_type(mode: int) -> str | None:
    """The letter for a file of that ``st_mode``: ``b``, ``c`` or ``p``; None for what is no device node."""
    kinds = ((stat.S_ISBLK, "b"), (stat.S_ISCHR, "c"), (stat.S_ISFIFO, "p"))
    return next((letter for is_kind, letter in kinds if is_kind(mode)), None)
