"""What is mounted into containers, before an engine is told of it."""

from __future__ import annotations

from pathlib import Path

from plugbay.errors import ContainerStartError
from plugbay.node.runtimes.port import ContainerSpec


def check_mounts(spec: ContainerSpec) -> None:
    """Refuse what is not there: engines make a directory of a missing mount, and on the host that would stay.

    Raises:
        ContainerStartError: a mount is not there.
    """
    for mount in (*spec.edits.mounts, *spec.mounts):
        try:
            Path(mount.host_path).stat()
        except OSError as error:
            problem = f"failed to generate container spec: lstat {mount.host_path}: {(error.strerror or '').lower()}"
            raise ContainerStartError("CreateContainerError", problem) from error
