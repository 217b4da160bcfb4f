"""Device nodes of the host, as far as they matter to CDI."""

from __future__ import annotations

from typing import Final

from plugbay.values import dataclass

NOT_LOOKED_INTO: Final = frozenset({"pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev"})
"""Directories that engines pass over where a directory stands for the nodes in it.

Source: containerd 2.1.9 ``core/containers/oci/utils_unix.go``.
"""
NOT_TAKEN: Final = "console"
"""The node that they pass over there."""


@dataclass(frozen=True, slots=True)
class HostNode:
    """A device node. ``type`` is ``b``, ``c`` or ``p``; ``mode`` holds the permission bits alone."""

    type: str
    major: int
    minor: int
    mode: int
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A device node and its path without symbolic links, which engines with CDI do not follow."""

    path: str
    node: HostNode
