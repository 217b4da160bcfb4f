"""A device as its plugin sees it, and as a manager reads it off the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from plugbay.errors import DuplicateDevice, InvalidDevice
from plugbay.model.edits import NO_EDITS, ContainerEdits, DeviceNode, Mount
from plugbay.model.health import HEALTHY, Health
from plugbay.model.ids import DeviceId, parse_device_id

MAX_NUMA_NODE = 63


@dataclass(frozen=True, slots=True, init=False)
class Device:
    """One unit of a resource, as a plugin offers it.

    Args:
        id: 1 to 63 bytes, unique in the resource; it must stay the same over restarts of the plugin.
        health: ``HEALTHY`` unless said otherwise.
        numa_nodes: NUMA nodes the device is close to, 0 to 63; empty for "no information".
        env, mounts, device_nodes, annotations, cdi_devices: what a container gets with the device.

    Raises:
        InvalidDeviceId: see `parse_device_id`.
        InvalidDevice: a NUMA node out of range, or edits no kubelet could pass on.
    """

    id: DeviceId
    health: Health
    numa_nodes: frozenset[int]
    edits: ContainerEdits

    def __init__(
        self,
        id: str,
        *,
        health: Health = HEALTHY,
        numa_nodes: Iterable[int] = (),
        env: Mapping[str, str] | None = None,
        mounts: Iterable[Mount] = (),
        device_nodes: Iterable[DeviceNode] = (),
        annotations: Mapping[str, str] | None = None,
        cdi_devices: Iterable[str] = (),
    ) -> None:
        edits = ContainerEdits(
            dict(env or {}), tuple(mounts), tuple(device_nodes), dict(annotations or {}), tuple(cdi_devices)
        )
        set_field = object.__setattr__
        set_field(self, "id", parse_device_id(id))
        set_field(self, "health", health)
        set_field(self, "numa_nodes", frozenset(numa_nodes))
        set_field(self, "edits", edits if edits != ContainerEdits() else NO_EDITS)
        _check(self)

    def with_health(self, health: Health) -> Device:
        """This device in another state."""
        if health == self.health:
            return self
        other = object.__new__(Device)
        for name, value in (
            ("id", self.id),
            ("health", health),
            ("numa_nodes", self.numa_nodes),
            ("edits", self.edits),
        ):
            object.__setattr__(other, name, value)
        return other


def index_devices(devices: Iterable[Device]) -> dict[DeviceId, Device]:
    """Devices by ID, in the order given.

    Raises:
        DuplicateDevice: an ID occurs twice.
    """
    by_id: dict[DeviceId, Device] = {}
    for device in devices:
        if device.id in by_id:
            raise DuplicateDevice(device.id)
        by_id[device.id] = device
    return by_id


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """A device as a ListAndWatch message shows it; nothing is checked, as in kubelets.

    Attributes:
        health: the text on the wire; healthy exactly if ``Healthy``.
        numa_nodes: ``None`` when the message has no topology; empty when it has one without nodes.
    """

    id: DeviceId
    health: str
    numa_nodes: tuple[int, ...] | None = None

    @property
    def is_healthy(self) -> bool:
        return self.health == "Healthy"


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """What a plugin wants to be called for (``DevicePluginOptions``)."""

    pre_start_required: bool = False
    get_preferred_allocation_available: bool = False
    post_stop_required: bool = False
    deallocate_required: bool = False


def _check(device: Device) -> None:
    for node in device.numa_nodes:
        if not 0 <= node <= MAX_NUMA_NODE:
            raise InvalidDevice(device.id, f"NUMA node {node} is not between 0 and {MAX_NUMA_NODE}")
    for name, value in device.edits.env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise InvalidDevice(device.id, f"{name!r} is not usable as an environment variable")
    for node_edit in device.edits.device_nodes:
        if not node_edit.permissions or set(node_edit.permissions) - set("rwm"):
            raise InvalidDevice(
                device.id,
                f"permissions {node_edit.permissions!r} of {node_edit.host_path} are not made of r, w and m",
            )
    mounts, nodes = device.edits.mounts, device.edits.device_nodes
    for pair in [(item.container_path, item.host_path) for item in mounts] + [
        (item.container_path, item.host_path) for item in nodes
    ]:
        for path in pair:
            if not path.startswith("/"):
                raise InvalidDevice(device.id, f"path {path!r} is not absolute")
