"""Host paths of mounts that do not exist: made as directories, as with a kubelet, or a reason not to start.

Source: containerd 2.1.9 ``internal/cri/opts/spec_linux_opts.go``, ``WithMounts``; kubelet 1.36 leaves it to the engine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plugbay.errors import ContainerStartError, quote
from plugbay.kernel.files import make_directories
from plugbay.model.edits import Mount
from plugbay.node.config import MissingMount
from plugbay.node.runtimes.port import ContainerSpec

REASON: Final = "MissingHostPath"
"""Of the event."""


def settle_missing_mounts(spec: ContainerSpec, on_missing: MissingMount) -> list[str]:
    """Deal with each mount of ``spec`` whose host path is missing; returns a sentence for each that was made.

    Raises:
        ContainerStartError: one is missing and shall not be made, or cannot be.
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


def _mounts(spec: ContainerSpec) -> Iterator[tuple[Mount, str]]:
    """With the giver of each."""
    yield from ((each, "a device plugin") for each in spec.edits.mounts)
    yield from ((each, "the pod") for each in spec.mounts)


def _refusal(problem: str) -> ContainerStartError:
    return ContainerStartError("CreateContainerError", f"failed to generate container spec: {problem}")
