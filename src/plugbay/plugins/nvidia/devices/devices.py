"""Devices as they are registered, and the resources that they belong to. Pure.

Source: k8s-device-plugin 0.20 ``internal/rm/devices.go``, ``device_map.go``; spec 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum, auto
from typing import Final

from plugbay.model.ids import DeviceId, ResourceName
from plugbay.model.sharing import SEPARATOR, replica_id
from plugbay.plugins.nvidia.config.selections import DeviceReference, ReferenceKind
from plugbay.values import dataclass


class DeviceKind(Enum):
    """The hardware behind a device."""

    GPU = auto()
    MIG = auto()
    WSL = auto()
    """All GPUs of a WSL machine together."""
    TEGRA = auto()
    """The integrated GPU of a Tegra machine."""


@dataclass(frozen=True, slots=True)
class NvidiaDevice:
    """A device, with all its replicas.

    Attributes:
        id: the UUID; ``all`` on WSL and ``tegra`` on Tegra.
        index: ``3`` for a GPU, ``3:1`` for a MIG device, ``all`` on WSL and ``0`` on Tegra.
        gpu_uuid: of the GPU that it is, or is a part of; empty on WSL and Tegra.
        gpu_instance, compute_instance: IDs of a MIG device; None for others.
        paths: of its device nodes.
        numa_node: None when it is not known.
        memory_bytes: in total; 0 when it is not known.
        compute_capability: major and minor.
        replicas: 1 for a device that is not shared.
    """

    id: str
    index: str
    kind: DeviceKind
    gpu_uuid: str = ""
    gpu_instance: int | None = None
    compute_instance: int | None = None
    paths: tuple[str, ...] = ()
    numa_node: int | None = None
    memory_bytes: int = 0
    compute_capability: tuple[int, int] = (0, 0)
    replicas: int = 1

    @property
    def is_shared(self) -> bool:
        return self.replicas > 1

    @property
    def has_control_nodes(self) -> bool:
        """Whether the driver's control nodes are needed to use it."""
        return self.kind not in (DeviceKind.TEGRA, DeviceKind.WSL)

    def listed_ids(self) -> tuple[DeviceId, ...]:
        """The IDs that the kubelet sees: the device's own, or those of its replicas."""
        if not self.is_shared:
            return (DeviceId(self.id),)
        return tuple(replica_id(self.id, number) for number in range(self.replicas))

    def is_called(self, reference: DeviceReference) -> bool:
        """Whether a configuration means this device by ``reference``."""
        match reference.kind:
            case ReferenceKind.GPU_INDEX | ReferenceKind.MIG_INDEX:
                return self.index == _normal_index(reference.text)
            case ReferenceKind.GPU_UUID:
                return self.id.lower() == reference.text.lower()
            case ReferenceKind.MIG_UUID:
                return reference.text.lower() in (self.id.lower(), self._legacy_uuid().lower())

    def _legacy_uuid(self) -> str:
        """The MIG device's UUID in the form of drivers before 470."""
        return f"MIG-{self.gpu_uuid}/{self.gpu_instance}/{self.compute_instance}"


@dataclass(frozen=True, slots=True)
class ResourceDevices:
    """A resource and its devices.

    Attributes:
        devices: by their own IDs, in the order of indices; at least one.
    """

    name: ResourceName
    devices: Mapping[str, NvidiaDevice] = field(default_factory=dict)

    def device(self, listed: str) -> NvidiaDevice | None:
        """The device with the ID ``listed``, as the kubelet sees it; None for any other ID."""
        own = self.devices.get(physical_of(listed))
        return own if own is not None and _is_listed(own, listed) else None

    def listed_ids(self) -> tuple[DeviceId, ...]:
        """The IDs that the kubelet sees."""
        return tuple(each for device in self.devices.values() for each in device.listed_ids())

    @property
    def socket_name(self) -> str:
        """The name of the plugin's socket, such as ``nvidia-mig-1g.5gb.sock``."""
        return f"nvidia-{self.name.rpartition('/')[2]}.sock"

    def with_device(self, device: NvidiaDevice) -> ResourceDevices:
        """The resource with one more device, or with another one of the same ID."""
        return ResourceDevices(self.name, {**self.devices, device.id: device})


DeviceMap = Mapping[ResourceName, ResourceDevices]
"""The resources of a node, each with at least one device."""


def with_device(
    devices: DeviceMap, resource: ResourceName, device: NvidiaDevice
) -> dict[ResourceName, ResourceDevices]:
    """The resources with one more device, or with another one of the same ID."""
    before = devices.get(resource, ResourceDevices(resource))
    return {**devices, resource: before.with_device(device)}


def device_map(pairs: Iterable[tuple[ResourceName, NvidiaDevice]]) -> dict[ResourceName, ResourceDevices]:
    """The resources that have these devices; names sorted, and devices in the order of their indices."""
    grouped: dict[ResourceName, list[NvidiaDevice]] = {}
    for resource, device in pairs:
        grouped.setdefault(resource, []).append(device)
    return {
        name: ResourceDevices(name, {device.id: device for device in sorted(grouped[name], key=by_index)})
        for name in sorted(grouped)
    }


def all_devices(devices: DeviceMap) -> Iterator[tuple[ResourceName, NvidiaDevice]]:
    """Every device and the resource that it belongs to."""
    for name, resource in devices.items():
        for device in resource.devices.values():
            yield name, device


def by_index(device: NvidiaDevice) -> tuple[int, ...]:
    """The order of devices: GPU 10 after GPU 9, and ``1:0`` after ``1``."""
    return tuple(int(part) if part.isdecimal() else _LAST for part in device.index.split(":"))


_LAST: Final = 1 << 31


def physical_of(listed: str) -> str:
    """The ID of the device behind a listed ID: all that stands before the first ``::``."""
    return listed.partition(SEPARATOR)[0]


def _is_listed(device: NvidiaDevice, listed: str) -> bool:
    if not device.is_shared:
        return listed == device.id
    number = listed.removeprefix(f"{device.id}{SEPARATOR}")
    return number.isascii() and number.isdecimal() and str(int(number)) == number and int(number) < device.replicas


def _normal_index(text: str) -> str:
    return ":".join(str(int(part)) for part in text.split(":"))
