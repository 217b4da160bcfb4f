"""Mounts of host paths that do not exist: these become directories, as with a kubelet, or the container does not start.

Source: containerd 2.1.9 ``internal/cri/opts/spec_linux_opts.go``, ``WithMounts``; kubelet 1.36 leaves it to the engine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final

from plugbay.errors import quote
from plugbay.kernel.files import absolute, make_directories
from plugbay.model.edits import Mount
from plugbay.runtimes.devices import lstat_failed, not_generated
from plugbay.runtimes.port import ContainerSpec

REASON: Final = "MissingHostPath"
"""The reason of the event."""


class MissingMount(Enum):
    """The answer to a mount whose host path does not exist."""

    MAKE = "make"
    """The path becomes an empty directory, as with a kubelet and containerd; an event tells of it."""
    REFUSE = "refuse"
    """The container does not start."""


def settle_missing_mounts(spec: ContainerSpec, on_missing: MissingMount) -> list[str]:
    """Deal with each mount of ``spec`` whose host path is missing; returns a sentence for each that was made.

    A path that is empty or relative is left to the runtime, unless missing paths are refused.

    Raises:
        ContainerStartError: a path is missing, and it shall not or cannot be made.
    """
    made = []
    for mount, giver in _mounts(spec):
        path = mount.host_path
        try:
            os.stat(absolute(path))
        except OSError as error:
            if on_missing is MissingMount.REFUSE or not isinstance(error, FileNotFoundError):
                raise lstat_failed(path, error) from error
            if not os.path.isabs(path):
                continue  # what it means is for the engine to say, which runs in a directory of its own
            try:
                make_directories(Path(path))
            except OSError as failure:
                problem = f"failed to mkdir {quote(path)}: mkdir {path}: {(failure.strerror or '').lower()}"
                raise not_generated(problem) from failure
            made.append(
                f"{path}, which {giver} mounts at {mount.container_path}, did not exist on the host: it was made as an "
                "empty directory, and the container has that"
            )
    return made


def check_mounts(spec: ContainerSpec) -> None:
    """Refuse a mount whose host path is missing: engines make a directory of it, and on the host that would stay.

    An empty or relative path is missing. An engine would take it from the directory of the container's instance.

    Raises:
        ContainerStartError: a host path is missing.
    """
    for mount in (*spec.edits.mounts, *spec.mounts):
        try:
            os.stat(absolute(mount.host_path))
        except OSError as error:
            raise lstat_failed(mount.host_path, error) from error


def _mounts(spec: ContainerSpec) -> Iterator[tuple[Mount, str]]:
    """Every mount with its giver."""
    yield from ((each, "a device plugin") for each in spec.edits.mounts)
    yield from ((each, "the pod") for each in spec.mounts)
