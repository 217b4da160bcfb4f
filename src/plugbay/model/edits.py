"""What a container gets with a device, and how the edits of several devices become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from plugbay.errors import ConflictingEdits


@dataclass(frozen=True, slots=True)
class Mount:
    """A bind mount from the host into the container. Paths are compared as texts, as kubelets do."""

    container_path: str
    host_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node of the host, shown to the container with cgroup ``permissions`` out of ``r``, ``w``, ``m``."""

    container_path: str
    host_path: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True)
class ContainerEdits:
    """Everything one Allocate answer can give a container.

    Attributes:
        env: variable name to literal value.
        annotations: annotations of the container at the runtime, not of the pod.
        cdi_devices: qualified CDI names, ``vendor/class=device``.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


NO_EDITS: Final = ContainerEdits()

_Placed = TypeVar("_Placed", Mount, DeviceNode)


def merge_devices(edits: Iterable[ContainerEdits], *, join_env: str | None = ",") -> ContainerEdits:
    """One answer for several devices of one plugin.

    The values of one environment variable are joined by ``join_env`` in the order of ``edits``, equal ones too, so
    that lists of several variables stay in step; equal mounts, nodes and CDI names appear once. With
    ``join_env=None`` equal values appear once as well, and differing ones are a conflict.

    Raises:
        ConflictingEdits: two devices want different things at the same container path or annotation key.
    """
    env: dict[str, list[str]] = {}
    mounts: dict[str, Mount] = {}
    nodes: dict[str, DeviceNode] = {}
    annotations: dict[str, str] = {}
    cdi: dict[str, None] = {}
    for edit in edits:
        for name, value in edit.env.items():
            env.setdefault(name, []).append(value)
        _place("mount", mounts, edit.mounts)
        _place("device node", nodes, edit.device_nodes)
        for key, value in edit.annotations.items():
            if annotations.setdefault(key, value) != value:
                raise ConflictingEdits("annotation", key, annotations[key], value)
        cdi.update(dict.fromkeys(edit.cdi_devices))
    return ContainerEdits(
        env={name: _join(name, values, join_env) for name, values in env.items()},
        mounts=tuple(mounts.values()),
        device_nodes=tuple(nodes.values()),
        annotations=annotations,
        cdi_devices=tuple(cdi),
    )


def merge_resources(edits: Iterable[ContainerEdits]) -> ContainerEdits:
    """One set of run options for several resources of one container: the first of a repeated key wins.

    Kubelets take the resources in random order; pass ours sorted by resource name.

    Source: kubelet 1.36 ``cm/devicemanager/pod_devices.go``, ``deviceRunContainerOptions``.
    """
    env: dict[str, str] = {}
    mounts: dict[str, Mount] = {}
    nodes: dict[str, DeviceNode] = {}
    annotations: dict[str, str] = {}
    cdi: dict[str, None] = {}
    for edit in edits:
        for name, value in edit.env.items():
            env.setdefault(name, value)
        for mount in edit.mounts:
            mounts.setdefault(mount.container_path, mount)
        for node in edit.device_nodes:
            nodes.setdefault(node.container_path, node)
        for key, value in edit.annotations.items():
            annotations.setdefault(key, value)
        cdi.update(dict.fromkeys(edit.cdi_devices))
    return ContainerEdits(env, tuple(mounts.values()), tuple(nodes.values()), annotations, tuple(cdi))


def _place(what: str, placed: dict[str, _Placed], wanted: Iterable[_Placed]) -> None:
    for item in wanted:
        before = placed.setdefault(item.container_path, item)
        if before != item:
            raise ConflictingEdits(what, item.container_path, str(before), str(item))


def _join(name: str, values: list[str], separator: str | None) -> str:
    if separator is None:
        for value in values:
            if value != values[0]:
                raise ConflictingEdits("environment variable", name, values[0], value)
        return values[0]
    return separator.join(values)
