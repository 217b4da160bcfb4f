"""Look at the host's device nodes."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from plugbay.cdi.nodes import FoundNode, HostNode


def host_node(path: str, *, root: Path) -> HostNode | None:
    """The node at ``path`` below ``root``; None if something else is there. Symbolic links are not followed.

    Raises:
        OSError: nothing is there that can be looked at.
    """
    try:
        found = os.lstat(root / path.lstrip("/"))
    except ValueError as error:  # no path holds a NUL, or half of a character
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path) from error
    return _node_of(found)


def find_node(path: str) -> FoundNode | None:
    """The node that ``path`` leads to; None if there is nothing, or something else."""
    try:
        real = os.path.realpath(path, strict=True)
        node = _node_of(os.lstat(real))
    except (OSError, ValueError):
        return None
    return None if node is None else FoundNode(real, node)


def _node_of(found: os.stat_result) -> HostNode | None:
    kind = node_type(found.st_mode)
    if kind is None:
        return None
    numbers = os.major(found.st_rdev), os.minor(found.st_rdev)
    return HostNode(kind, *numbers, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


def node_type(mode: int) -> str | None:
    """The letter for a file of that ``st_mode``: ``b``, ``c`` or ``p``; None if it is not a device node."""
    kinds = ((stat.S_ISBLK, "b"), (stat.S_ISCHR, "c"), (stat.S_ISFIFO, "p"))
    return next((letter for is_kind, letter in kinds if is_kind(mode)), None)
