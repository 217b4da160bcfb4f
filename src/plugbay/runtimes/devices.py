"""The device nodes of the host that a container is promised, as containerd finds them.

Source: containerd 2.1.9 ``internal/cri/opts``, ``core/containers/oci/utils_unix.go``; ``device access at`` is runc's
text.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from plugbay.cdi.host import node_type
from plugbay.cdi.nodes import NOT_LOOKED_INTO, NOT_TAKEN
from plugbay.errors import ContainerStartError
from plugbay.model.edits import DeviceNode
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """A node for the container; ``type`` is ``b``, ``c`` or ``p``, ``mode`` the permission bits alone.

    Attributes:
        host_path: with no link in it.
    """

    path: str
    type: str
    major: int
    minor: int
    mode: int
    uid: int
    gid: int
    permissions: str
    host_path: str = ""


def find_devices(nodes: Iterable[DeviceNode]) -> list[FoundDevice]:
    """Every node that ``nodes`` come to: a link is followed, a directory stands for the devices below it.

    Raises:
        ContainerStartError: a path is missing, or is not a device.
    """
    found = []
    for number, node in enumerate(nodes, 1):
        if not node.permissions:
            raise ContainerStartError("StartError", f"device access at {number} field cannot be empty")
        found += _find(node)
    return found


def host_devices(root: Path) -> list[FoundDevice]:
    """All devices below ``root``, for a privileged container."""
    return list(_below(root, DeviceNode(root, container_path="/dev", permissions="rwm")))


def _find(node: DeviceNode) -> list[FoundDevice]:
    try:
        path = Path(os.path.realpath(node.host_path, strict=True))
    except OSError as error:
        raise _refusal(f"lstat {node.host_path}: {(error.strerror or str(error)).lower()}") from error
    if path.is_dir():
        return list(_below(path, node))
    device = _device(path, node.container_path, node)
    if device is None:
        raise _refusal(
            f'get device path: "{node.host_path}" containerPath: "{node.container_path}" error: not a device node'
        )
    return [device]


def _below(directory: Path, node: DeviceNode) -> Iterator[FoundDevice]:
    for path in sorted(directory.iterdir()):
        try:
            if path.is_symlink():
                continue
            if path.is_dir():
                if path.name not in NOT_LOOKED_INTO:
                    yield from _below(path, _inside(node, path))
            elif path.name != NOT_TAKEN:
                inside = _inside(node, path)
                device = _device(path, inside.container_path, inside)
                if device is not None and device.type != "p":
                    yield device
        except FileNotFoundError:
            continue  # gone since it was listed


def _inside(node: DeviceNode, path: Path) -> DeviceNode:
    return DeviceNode(
        path, container_path=f"{node.container_path.rstrip('/')}/{path.name}", permissions=node.permissions
    )


def _device(path: Path, container_path: str, node: DeviceNode) -> FoundDevice | None:
    found = path.lstat()
    kind = node_type(found.st_mode)
    if kind is None:
        return None
    return FoundDevice(
        container_path,
        kind,
        os.major(found.st_rdev),
        os.minor(found.st_rdev),
        stat.S_IMODE(found.st_mode),
        found.st_uid,
        found.st_gid,
        node.permissions,
        str(path),
    )


def _refusal(problem: str) -> ContainerStartError:
    return ContainerStartError("CreateContainerError", f"failed to generate container spec: {problem}")
