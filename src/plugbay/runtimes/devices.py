"""The device nodes of the host that a container is promised, as containerd finds them.

Source: containerd 2.1.9 ``internal/cri/opts``, ``core/containers/oci/utils_unix.go``; ``device access at`` is runc's
text.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from plugbay.cdi.host import node_type
from plugbay.cdi.nodes import NOT_LOOKED_INTO, NOT_TAKEN
from plugbay.errors import ContainerStartError
from plugbay.kernel.files import absolute
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


def find_devices(nodes: Iterable[DeviceNode], *, is_given_up: Callable[[], bool]) -> list[FoundDevice]:
    """Every node that ``nodes`` come to: a link is followed, a directory stands for the devices below it.

    Args:
        is_given_up: asked for each directory, of which there may be any number.

    Raises:
        ContainerStartError: a path is missing, is not a device, or cannot be looked into; or it is given up.
    """
    found = []
    for number, node in enumerate(nodes, 1):
        if not node.permissions:
            raise ContainerStartError("StartError", f"device access at {number} field cannot be empty")
        found += _find(node, is_given_up)
    return found


def host_devices(root: Path, *, is_given_up: Callable[[], bool]) -> list[FoundDevice]:
    """All devices below ``root``, for a privileged container.

    Raises:
        ContainerStartError: a directory cannot be looked into, or it is given up.
    """
    return list(_below(str(root), "/dev", "rwm", is_given_up))


def lstat_failed(path: str, error: OSError) -> ContainerStartError:
    """A host path that cannot be given to a container."""
    return not_generated(f"lstat {path}: {_words(error)}")


def not_generated(problem: str) -> ContainerStartError:
    """A container that cannot be described to an engine."""
    return ContainerStartError("CreateContainerError", f"failed to generate container spec: {problem}")


def _find(node: DeviceNode, is_given_up: Callable[[], bool]) -> list[FoundDevice]:
    try:
        path = os.path.realpath(absolute(node.host_path), strict=True)
        found = os.lstat(path)
    except OSError as error:
        raise lstat_failed(node.host_path, error) from error
    if stat.S_ISDIR(found.st_mode):
        return list(_below(path, node.container_path, node.permissions, is_given_up))
    device = _device(path, found, node.container_path, node.permissions)
    if device is None:
        raise not_generated(
            f'get device path: "{node.host_path}" containerPath: "{node.container_path}" error: not a device node'
        )
    return [device]


def _below(
    directory: str, container_path: str, permissions: str, is_given_up: Callable[[], bool]
) -> Iterator[FoundDevice]:
    """The devices below a directory; without a path in the container they keep the host's."""
    ways = [(_entries(directory, is_given_up), container_path)]
    while ways:
        entries, place = ways[-1]
        entry = next(entries, None)
        if entry is None:
            ways.pop()
            continue
        inside = f"{place.rstrip('/')}/{entry.name}" if place else ""
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in NOT_LOOKED_INTO:
                ways.append((_entries(entry.path, is_given_up), inside))
        elif entry.name != NOT_TAKEN and not entry.is_symlink() and not entry.is_file(follow_symlinks=False):
            try:
                device = _device(entry.path, entry.stat(follow_symlinks=False), inside, permissions)
            except FileNotFoundError:
                continue  # gone since it was listed
            if device is not None and device.type != "p":
                yield device


def _entries(directory: str, is_given_up: Callable[[], bool]) -> Iterator[os.DirEntry[str]]:
    if is_given_up():
        raise not_generated(f"open {directory}: context deadline exceeded")
    try:
        with os.scandir(directory) as entries:
            return iter(sorted(entries, key=lambda each: each.name))
    except FileNotFoundError:
        return iter(())  # gone since it was listed
    except OSError as error:
        raise not_generated(f"open {directory}: {_words(error)}") from error


def _device(path: str, found: os.stat_result, container_path: str, permissions: str) -> FoundDevice | None:
    kind = node_type(found.st_mode)
    if kind is None:
        return None
    return FoundDevice(
        container_path or path,
        kind,
        os.major(found.st_rdev),
        os.minor(found.st_rdev),
        stat.S_IMODE(found.st_mode),
        found.st_uid,
        found.st_gid,
        permissions,
        path,
    )


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
