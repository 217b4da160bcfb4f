"""The shares of one pod's containers with each other, or with the host. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from plugbay.model.edits import Mount
from plugbay.values import dataclass

HOST: Final = ""
"""Stands in place of a path for the host's namespace."""


@dataclass(frozen=True, slots=True)
class PodFile:
    """A file of the pod that covers a file of the root file system; it is left out where the latter does not exist.

    Attributes:
        wanted_by: the field of the pod that cannot do without it; empty if none.
    """

    mount: Mount
    wanted_by: str = ""


@dataclass(frozen=True, slots=True)
class PodShares:
    """The things that the containers of a pod have together.

    Attributes:
        namespaces: by the OCI's names of their kinds, where they are. Of those that are not in here a container has its
            own, but for the network, which is the host's.
        shm: the directory shown as ``/dev/shm``; empty for memory of the container's own.
        hostname: empty where the pod's name is used.
    """

    namespaces: Mapping[str, str] = field(default_factory=dict)
    shm: str = ""
    hostname: str = ""
    files: tuple[PodFile, ...] = ()


UNSHARED: Final = PodShares()
