"""What the containers of one pod share with each other, or with the host: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from plugbay.model.edits import Mount

HOST: Final = ""
"""In place of a path: the host's namespace."""


@dataclass(frozen=True, slots=True)
class PodFile:
    """A file of the pod's own in place of that of the root file system; left out where there is no place for it.

    Attributes:
        wanted_by: the field of the pod that cannot do without it; empty if none.
    """

    mount: Mount
    wanted_by: str = ""


@dataclass(frozen=True, slots=True)
class PodShares:
    """What the containers of a pod have together.

    Attributes:
        namespaces: by the OCI's names of their kinds, where they are. Of those that are not in here a container has its
            own, but for the network, which is the host's.
        shm: what ``/dev/shm`` shows; empty is memory of the container's own.
        hostname: empty where the pod's name has to do.
    """

    namespaces: Mapping[str, str] = field(default_factory=dict)
    shm: str = ""
    hostname: str = ""
    files: tuple[PodFile, ...] = ()


UNSHARED: Final = PodShares()
