"""Whether what should be mounted is there, and whether there is a place for it in a container."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from plugbay.errors import ContainerStartError
from plugbay.node.runtimes.oci.shares import PodFile
from plugbay.node.runtimes.port import ContainerSpec

_WRITABLE: Final = ("/dev", "/run", "/tmp")
"""Of every container's own."""


def check_mounts(spec: ContainerSpec) -> None:
    """Unlike containerd, which makes a directory of it, a missing mount is refused: on the host that would stay.

    Raises:
        ContainerStartError: a mount is not there.
    """
    for mount in (*spec.edits.mounts, *spec.mounts):
        try:
            Path(mount.host_path).stat()
        except OSError as error:
            problem = f"failed to generate container spec: lstat {mount.host_path}: {(error.strerror or '').lower()}"
            raise ContainerStartError("CreateContainerError", problem) from error


def has_place(file: PodFile, rootfs: Path, spec: ContainerSpec) -> bool:
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
        first = path.split("/")[1]
        has_place = below in _WRITABLE or os.path.lexists(f"{rootfs}{path}") or not os.path.lexists(rootfs / first)
    if file.wanted_by and not has_place:
        problem = f"{file.wanted_by}: {path} is not there, and what is around it is read-only in the oci runtime"
        raise ContainerStartError("CreateContainerError", problem)
    return has_place
