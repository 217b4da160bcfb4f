"""The places of a plugin's container that are its image's, or its engine's, and not to be hidden. Pure.

Source: containerd 2.1 ``internal/cri/server/container_create_linux.go`` (mounts of an engine), runc 1.3
``libcontainer/rootfs_linux.go`` (``checkProcMount``), Debian 12 and ``python:3.13`` (places of Python and libraries).
"""

from __future__ import annotations

import re
from typing import Final

from plugbay.sdk.deploying.plugin_needs import is_below

_TREES: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_OWN: Final = (
    *(f"{parent}/{each}" for parent in ("", "/usr", "/usr/local") for each in _TREES),
    *("/etc", "/home", "/opt", "/root", "/tmp"),
    *("/run/secrets", "/var/run/secrets"),
)
"""Nothing is mounted at these, or above them; below them there is room."""
_WHOLLY_OWN: Final = re.compile(
    r"/proc(/.*)?|((/usr(/local)?)?/(s?bin/.*|lib(32|64|x32)?/([^/]+-linux-[^/]+|python[^/]*(/.*)?)))"
)
"""Nothing is mounted at these, which have programs and libraries in them, and there is no room below."""
_OF_NETWORK: Final = frozenset({"net", "ieee80211", "infiniband"})
"""Directories of sysfs that have only what is in the network namespace of the pod.

Source: Linux ``net/core/net-sysfs.c``, ``net/wireless/sysfs.c``, ``drivers/infiniband/core/device.c`` (``ns_type``).
"""
_DEV: Final = "/dev"
_SYS: Final = "/sys"
_NOT_IN_SYS: Final = "/sys/fs"


def hides_own(place: str) -> bool:
    """Whether a directory that is mounted at ``place`` would hide what a container cannot do without."""
    return any(is_below(each, place) for each in _OWN) or _WHOLLY_OWN.fullmatch(place) is not None


def mounted_for(path: str) -> str:
    """The directory of the host to mount, so that a container sees what is at ``path``; empty if it does anyway.

    That is ``path`` itself, where neither ``/dev`` nor ``/sys`` has to be there as a whole: nodes come and go, and what
    sysfs lists are links to elsewhere in it.
    """
    if is_below(path, _DEV):
        return _DEV
    if is_below(path, "/proc"):
        return ""
    if is_below(path, _SYS) and not is_below(path, _NOT_IN_SYS):
        return "" if _OF_NETWORK.isdisjoint(path.split("/")) else _SYS
    return path
