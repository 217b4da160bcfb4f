"""Device nodes of the host, as far as they matter to CDI."""

from __future__ import annotations

from plugbay.values import dataclass


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
