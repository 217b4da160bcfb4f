"""The values of a CDI spec, as its text gives them. Only `plugbay.cdi.rules` says whether they make sense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from typing import Final

from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class SpecDeviceNode:
    """A device node in the container.

    Attributes:
        path: where it is in the container.
        host_path: where it is on the host; empty for ``path``.
        type: ``b``, ``c``, ``u``, ``p``; empty for the type of the host's node.
        major: with `minor` 0 for the host node's numbers.
        file_mode: permission bits; None for the host's.
        permissions: of the device cgroup, out of ``r``, ``w``, ``m``; empty for all, ``none`` for none.
        uid: None for that of the container's process.
        gid: likewise.
    """

    path: str = ""
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, slots=True)
class SpecMount:
    """A mount; ``options`` need an explicit ``bind`` or ``rbind`` for a bind mount."""

    host_path: str = ""
    container_path: str = ""
    options: tuple[str, ...] = ()
    type: str = ""


@dataclass(frozen=True, slots=True)
class Hook:
    """A program that the runtime runs; ``args[0]`` is its own name, ``timeout_s`` None for no limit."""

    hook_name: str = ""
    path: str = ""
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout_s: int | None = None


@dataclass(frozen=True, slots=True)
class IntelRdt:
    """Cache and memory bandwidth allocation of the processor."""

    clos_id: str = ""
    l3_cache_schema: str = ""
    mem_bw_schema: str = ""
    schemata: tuple[str, ...] | None = None
    enable_monitoring: bool = False


@dataclass(frozen=True, slots=True)
class NetDevice:
    """A network interface that moves into the container under another name."""

    host_interface_name: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Edits:
    """The changes to a container; ``env`` holds ``NAME=value`` texts."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[SpecDeviceNode, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()
    hooks: tuple[Hook, ...] = ()
    mounts: tuple[SpecMount, ...] = ()
    intel_rdt: IntelRdt | None = None
    additional_gids: tuple[int, ...] = ()

    def is_empty(self) -> bool:
        return self == NO_EDITS

    def __add__(self, other: Edits) -> Edits:
        """Both edits, ``other`` later; the later one of two Intel RDT settings holds."""
        return Edits(
            self.env + other.env,
            self.device_nodes + other.device_nodes,
            self.net_devices + other.net_devices,
            self.hooks + other.hooks,
            self.mounts + other.mounts,
            other.intel_rdt or self.intel_rdt,
            self.additional_gids + other.additional_gids,
        )


NO_EDITS: Final = Edits()


@dataclass(frozen=True, slots=True)
class SpecDevice:
    """One device of a spec."""

    name: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    edits: Edits = NO_EDITS


@dataclass(frozen=True, slots=True)
class Spec:
    """One spec file's content.

    Attributes:
        version: the spec version it declares.
        edits: the edits of every container that gets any of the devices.
    """

    version: str = ""
    kind: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[SpecDevice, ...] = ()
    edits: Edits = NO_EDITS

    def all_edits(self) -> Iterator[Edits]:
        """The edits of the file as a whole, then those of each device."""
        yield self.edits
        for device in self.devices:
            yield device.edits


KEYS: Final[Mapping[type, Mapping[str, str]]] = {
    Spec: {
        "version": "cdiVersion",
        "kind": "kind",
        "annotations": "annotations",
        "devices": "devices",
        "edits": "containerEdits",
    },
    SpecDevice: {"name": "name", "annotations": "annotations", "edits": "containerEdits"},
    Edits: {
        "env": "env",
        "device_nodes": "deviceNodes",
        "net_devices": "netDevices",
        "hooks": "hooks",
        "mounts": "mounts",
        "intel_rdt": "intelRdt",
        "additional_gids": "additionalGids",
    },
    SpecDeviceNode: {
        "path": "path",
        "host_path": "hostPath",
        "type": "type",
        "major": "major",
        "minor": "minor",
        "file_mode": "fileMode",
        "permissions": "permissions",
        "uid": "uid",
        "gid": "gid",
    },
    SpecMount: {"host_path": "hostPath", "container_path": "containerPath", "options": "options", "type": "type"},
    Hook: {"hook_name": "hookName", "path": "path", "args": "args", "env": "env", "timeout_s": "timeout"},
    IntelRdt: {
        "clos_id": "closID",
        "l3_cache_schema": "l3CacheSchema",
        "mem_bw_schema": "memBwSchema",
        "schemata": "schemata",
        "enable_monitoring": "enableMonitoring",
    },
    NetDevice: {"host_interface_name": "hostInterfaceName", "name": "name"},
}
"""The name of each attribute in the text."""

assert all(set(KEYS[cls]) == {each.name for each in fields(cls)} for cls in KEYS)
