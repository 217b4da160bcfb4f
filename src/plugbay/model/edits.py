"""Edits: what a container gets with a device, and how the edits of several devices are merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from plugbay.errors import ConflictingEdits


class PathLike(Protocol):
    """`os.PathLike`, such as a `pathlib.Path`, without importing ``os``."""

    def __fspath__(self) -> str: ...


@dataclass(frozen=True, slots=True, init=False)
class Mount:
    """A bind mount of the host's ``host_path`` into the container.

    Paths are kept and compared as texts, as kubelets do.

    Args:
        container_path: the path in the container; by default the same as on the host.
    """

    host_path: str
    container_path: str
    read_only: bool

    def __init__(
        self, host_path: str | PathLike, *, container_path: str | PathLike | None = None, read_only: bool = False
    ) -> None:
        _set_paths(self, host_path, container_path)
        object.__setattr__(self, "read_only", read_only)


@dataclass(frozen=True, slots=True, init=False)
class DeviceNode:
    """A device node of the host, ``host_path``, shown to the container.

    Args:
        container_path: the path in the container; by default the same as on the host.
        permissions: the access that the container's cgroup allows, out of ``r``, ``w`` and ``m``.
    """

    host_path: str
    container_path: str
    permissions: str

    def __init__(
        self, host_path: str | PathLike, *, container_path: str | PathLike | None = None, permissions: str = "rw"
    ) -> None:
        _set_paths(self, host_path, container_path)
        object.__setattr__(self, "permissions", permissions)


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """A network interface of the host that moves into the pod; a kubelet passes it on by CDI alone.

    Args:
        host_name: such as ``enp1s0f0v3``.
        container_name: in the pod; not that of an interface which the pod has anyway, such as ``eth0``.
    """

    host_name: str
    container_name: str


@dataclass(frozen=True, slots=True, init=False)
class ContainerEdits:
    """Everything one Allocate answer can give a container; takes the same arguments as a `Device`.

    Args:
        env: variable name to literal value.
        annotations: annotations of the container at the runtime, not of the pod.
        cdi_devices: qualified CDI names, ``vendor/class=device``.
        interfaces: network interfaces, of a device with a CDI kind only.
    """

    env: Mapping[str, str]
    mounts: tuple[Mount, ...]
    device_nodes: tuple[DeviceNode, ...]
    annotations: Mapping[str, str]
    cdi_devices: tuple[str, ...]
    interfaces: tuple[NetworkInterface, ...]

    def __init__(
        self,
        env: Mapping[str, str] | None = None,
        mounts: Iterable[Mount] = (),
        device_nodes: Iterable[DeviceNode] = (),
        annotations: Mapping[str, str] | None = None,
        cdi_devices: Iterable[str] = (),
        interfaces: Iterable[NetworkInterface] = (),
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "env", {} if env is None else env)
        set_field(self, "mounts", _all_of(mounts))
        set_field(self, "device_nodes", _all_of(device_nodes))
        set_field(self, "annotations", {} if annotations is None else annotations)
        set_field(self, "cdi_devices", _all_of(cdi_devices))
        set_field(self, "interfaces", _all_of(interfaces))


def _set_paths(item: Mount | DeviceNode, host_path: str | PathLike, container_path: str | PathLike | None) -> None:
    at_host = _text_of(host_path)
    object.__setattr__(item, "host_path", at_host)
    object.__setattr__(item, "container_path", at_host if container_path is None else _text_of(container_path))


def _text_of(path: str | PathLike) -> str:
    """Return a path as text. Anything else is left as it is: `edit_checks` reports it with the name of the device."""
    return path.__fspath__() if hasattr(path, "__fspath__") else path


def _all_of(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return values as a tuple. A text, or a value that cannot be iterated over, is left as it is for `edit_checks`."""
    return values if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)  # type: ignore[return-value]


NO_EDITS: Final = ContainerEdits()

_Placed = TypeVar("_Placed", Mount, DeviceNode)


def merge_devices(edits: Iterable[ContainerEdits], *, join_env: str | None = ",") -> ContainerEdits:
    """Merge the edits of several devices of one plugin into one answer.

    The values of one environment variable are joined by ``join_env`` in the order of ``edits``, equal values too, so
    that lists of several variables stay in step; equal mounts, nodes, interfaces and CDI names appear once. With
    ``join_env=None`` equal values appear once as well, and different values are a conflict.

    Raises:
        ConflictingEdits: two devices want different things at the same container path or annotation key.
    """
    env: dict[str, list[str]] = {}
    mounts: dict[str, Mount] = {}
    nodes: dict[str, DeviceNode] = {}
    annotations: dict[str, str] = {}
    cdi: dict[str, None] = {}
    interfaces: dict[NetworkInterface, None] = {}
    for edit in edits:
        for name, value in edit.env.items():
            env.setdefault(name, []).append(value)
        _place("mount", mounts, edit.mounts)
        _place("device node", nodes, edit.device_nodes)
        for key, value in edit.annotations.items():
            if annotations.setdefault(key, value) != value:
                raise ConflictingEdits("annotation", key, annotations[key], value)
        cdi.update(dict.fromkeys(edit.cdi_devices))
        interfaces.update(dict.fromkeys(edit.interfaces))
    return ContainerEdits(
        env={name: _join(name, values, join_env) for name, values in env.items()},
        mounts=tuple(mounts.values()),
        device_nodes=tuple(nodes.values()),
        annotations=annotations,
        cdi_devices=tuple(cdi),
        interfaces=tuple(interfaces),
    )


def merge_resources(edits: Iterable[ContainerEdits]) -> ContainerEdits:
    """Merge the edits of several resources of one container: the first value of a repeated key wins.

    Kubelets take the resources in random order; pass them sorted by resource name.

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
