"""Mounts of host paths that do not exist: these become directories, as with a kubelet, or the container does not start.

Source: containerd 2.1.9 ``internal/cri/opts/spec_linux_opts.go``, ``WithMounts``; kubelet 1.36 leaves it to the engine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final

from plugbay.errors import ContainerStartError, quote
from plugbay.kernel.files import make_directories
from plugbay.model.edits import Mount
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

    Raises:
        ContainerStartError: a path is missing, and it shall not or cannot be made.
    """
    made = []
    for mount, giver in _mounts(spec):
        path = mount.host_path
        try:
            os.stat(path)
        except OSError as error:
            if on_missing is MissingMount.REFUSE or not isinstance(error, FileNotFoundError):
                raise _refusal(f"lstat {path}: {(error.strerror or '').lower()}") from error
            try:
                make_directories(Path(path))
            except OSError as failure:
                problem = f"failed to mkdir {quote(path)}: mkdir {path}: {(failure.strerror or '').lower()}"
                raise _refusal(problem) from failure
            made.append(
                f"{path}, which {giver} mounts at {mount.container_path}, did not exist on the host: it was made as an "
                "empty directory, and the container has that"
            )
    return made


def check_mounts(spec: ContainerSpec) -> None:
    """Refuse a mount whose host path is missing: engines make a directory of it, and on the host that would stay.

    Raises:
        ContainerStartError: a host path is missing.
    """
    for mount in (*spec.edits.mounts, *spec.mounts):
        try:
            Path(mount.host_path).stat()
        except OSError as error:
            raise _refusal(f"lstat {mount.host_path}: {(error.strerror or '').lower()}") from error


def _mounts(spec: ContainerSpec) -> Iterator[tuple[Mount, str]]:
    """Every mount with its giver."""
    yield from ((each, "a device plugin") for each in spec.edits.mounts)
    yield from ((each, "the pod") for each in spec.mounts)


def _refusal(problem: str) -> ContainerStartError:
    return ContainerStartError("CreateContainerError", f"failed to generate container spec: {problem}")
