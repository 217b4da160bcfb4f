"""Whether there is a place in a container for a file of its pod."""

from __future__ import annotations

import os
from typing import Final

from plugbay.errors import ContainerStartError
from plugbay.node.runtimes.oci.rootfs import RootFs
from plugbay.node.runtimes.oci.shares import PodFile
from plugbay.node.runtimes.port import ContainerSpec

_WRITABLE: Final = ("/dev", "/run", "/tmp")
"""Of every container's own."""


def has_place(file: PodFile, root: RootFs, spec: ContainerSpec) -> bool:
    """Whether a file of the pod's can be shown: in place of one, or where the engine can make one.

    Raises:
        ContainerStartError: it cannot, and a field of the pod is about it.
    """
    path = os.path.normpath(file.mount.container_path)
    volumes = {os.path.normpath(each.container_path): each for each in (*spec.edits.mounts, *spec.mounts)}
    above = [each for each in (*_WRITABLE, *volumes) if path.startswith(f"{each}/")]
    below = max(above, key=len, default="")
    if volume := volumes.get(below):
        has_place = not volume.read_only or os.path.lexists(volume.host_path + path.removeprefix(below))
    else:
        has_place = below in _WRITABLE or root.has_room(path)
    if file.wanted_by and not has_place:
        problem = f"{file.wanted_by}: {path} is not there, and what is around it is read-only in the oci runtime"
        raise ContainerStartError("CreateContainerError", problem)
    return has_place
