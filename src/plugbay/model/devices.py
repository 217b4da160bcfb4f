"""Devices, as their plugin describes them and as a manager reads them from the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from plugbay.errors import DuplicateDevice, DuplicateDeviceName, InvalidDevice
from plugbay.model.attributes import AttributeValue, parse_capacity, problem_of
from plugbay.model.edit_checks import problem_of_edits
from plugbay.model.edits import NO_EDITS, ContainerEdits, DeviceNode, Mount, NetworkInterface
from plugbay.model.health import HEALTHY, Health
from plugbay.model.ids import DeviceId, parse_device_id
from plugbay.model.names import DeviceName, derive_name, parse_device_name
from plugbay.model.sharing import EXCLUSIVE, MAX_REPLICAS, Exclusive, Replicas, Sharing, replica_id
from plugbay.values import dataclass

if TYPE_CHECKING:
    from plugbay.model.quantity import Quantity

MAX_NUMA_NODE = 63
_NOTHING: Final[Mapping[str, Any]] = {}

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, init=False)
class Device:
    """One unit of a resource, as a plugin offers it.

    Args:
        id: 1 to 63 bytes, unique in the resource; it must stay the same over restarts of the plugin.
        health: ``HEALTHY`` unless said otherwise.
        numa_nodes: the NUMA nodes the device is close to, 0 to 63; empty for "no information".
        env, mounts, device_nodes, annotations, cdi_devices, interfaces: what a container gets with the device.
        attributes: its properties, such as ``{"model": "A1", "driver": 535}``; a list of values is a tuple.
        capacity: its amounts of something, such as ``{"memory": "80Gi"}``.
        name: a DNS label for places that do not allow the ID; by default made from the ID. Prefer the name of a slot to
            that of the card in it: the slot outlives the card, whose name can be an attribute.
        sharing: `EXCLUSIVE`, or ``Replicas(4)`` for a device that four containers may have at a time.

    A kubelet does not learn name, attributes and capacity from a device plugin; they are for health checks,
    preferences and allocation to read.

    Raises:
        InvalidDeviceId: see `parse_device_id`; with replicas, their IDs have to fit too.
        InvalidDevice: a NUMA node out of range, edits no kubelet could pass on, attributes or capacity that no
            ResourceSlice could hold, a name that is not a label, or a number of replicas out of range.
    """

    id: DeviceId
    health: Health
    numa_nodes: frozenset[int]
    edits: ContainerEdits
    attributes: Mapping[str, AttributeValue]
    capacity: Mapping[str, Quantity]
    sharing: Sharing
    given_name: DeviceName | None

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
        attributes: Mapping[str, AttributeValue] | None = None,
        capacity: Mapping[str, Quantity | int | str] | None = None,
        sharing: Sharing = EXCLUSIVE,
        name: str | None = None,
        interfaces: Iterable[NetworkInterface] = (),
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "id", parse_device_id(id))
        edits = ContainerEdits(
            _mapping_of(id, "env", env),
            _all_of(id, "mounts", mounts),
            _all_of(id, "device_nodes", device_nodes),
            _mapping_of(id, "annotations", annotations),
            _all_of(id, "cdi_devices", cdi_devices),
            _all_of(id, "interfaces", interfaces),
        )
        set_field(self, "health", health)
        set_field(self, "numa_nodes", frozenset(_all_of(id, "numa_nodes", numa_nodes)))
        set_field(self, "edits", edits if edits != ContainerEdits() else NO_EDITS)
        set_field(self, "attributes", _mapping_of(id, "attributes", attributes) or _NOTHING)
        set_field(self, "sharing", sharing)
        set_field(self, "given_name", None if name is None else parse_device_name(id, name))
        try:
            amounts = _mapping_of(id, "capacity", capacity)
            set_field(self, "capacity", parse_capacity(amounts) if amounts else _NOTHING)
        except ValueError as error:
            raise InvalidDevice(id, str(error)) from error
        _check(self)

    @property
    def name(self) -> DeviceName:
        """The name as a DNS label; the same ID has the same name after every restart."""
        return self.given_name or derive_name(self.id)

    def with_health(self, health: Health) -> Device:
        """Return this device with another health."""
        return self if health == self.health else _replace(self, "health", health)

    def listed(self) -> tuple[Device, ...]:
        """The devices that the kubelet sees: this device, or each of its replicas."""
        if not isinstance(self.sharing, Replicas):
            return (self,)
        return tuple(_replace(self, "id", replica_id(self.id, number)) for number in range(self.sharing.count))


def index_devices(devices: Iterable[Device]) -> dict[DeviceId, Device]:
    """Index devices by ID, in the order given.

    Raises:
        DuplicateDevice: an ID occurs twice.
    """
    by_id: dict[DeviceId, Device] = {}
    for device in devices:
        if device.id in by_id:
            raise DuplicateDevice(device.id)
        by_id[device.id] = device
    return by_id


def check_names(devices: Iterable[Device]) -> None:
    """Refuse devices that share a name.

    Raises:
        DuplicateDeviceName: two devices would have the same name, and the author gave at least one of the names.
    """
    known = list(devices)
    if not any(device.given_name for device in known):
        return  # derived names have digests, which do not collide
    first: dict[DeviceName, Device] = {}
    for device in known:
        other = first.setdefault(device.name, device)
        if other is not device:
            raise DuplicateDeviceName(device.name, other.id, device.id)


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """A device as a ListAndWatch message shows it; nothing is checked, as in kubelets.

    Attributes:
        health: the text on the wire; healthy exactly if ``Healthy``.
        numa_nodes: ``None`` when the message has no topology; empty when it has a topology without nodes.
        reason: why the device is not healthy, one CamelCase word; empty when the plugin does not tell.
    """

    id: DeviceId
    health: str
    numa_nodes: tuple[int, ...] | None = None
    reason: str = ""

    @property
    def is_healthy(self) -> bool:
        return self.health == "Healthy"


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """The calls that a plugin wants (``DevicePluginOptions``)."""

    pre_start_required: bool = False
    get_preferred_allocation_available: bool = False
    post_stop_required: bool = False
    deallocate_required: bool = False


def _replace(device: Device, field: str, value: object) -> Device:
    """Copy a device with another value in one field, unchecked. Lists of 10,000 devices are made of such copies."""
    other = object.__new__(Device)
    for name in Device.__slots__:
        object.__setattr__(other, name, value if name == field else getattr(device, name))
    return other


def _check(device: Device) -> None:
    match device.sharing:
        case Replicas(count):
            if not isinstance(count, int) or not 1 <= count <= MAX_REPLICAS:
                raise InvalidDevice(device.id, f"{count!r} replicas are not between 1 and {MAX_REPLICAS}")
            parse_device_id(replica_id(device.id, count - 1))
        case Exclusive():
            pass
        case other:
            raise InvalidDevice(device.id, f"sharing {other!r} is neither EXCLUSIVE nor Replicas(...)")
    if not isinstance(device.health, Health):
        raise InvalidDevice(device.id, f"health {device.health!r} is not a plugbay.Health, such as HEALTHY")
    if problem := problem_of(device.attributes, device.capacity):
        raise InvalidDevice(device.id, problem)
    for node in device.numa_nodes:
        if not isinstance(node, int) or not 0 <= node <= MAX_NUMA_NODE:
            raise InvalidDevice(device.id, f"NUMA node {node!r} is not between 0 and {MAX_NUMA_NODE}")
    if problem := problem_of_edits(device.edits):
        raise InvalidDevice(device.id, problem)


def _all_of(device_id: str, name: str, values: Iterable[_Item]) -> tuple[_Item, ...]:
    """``values`` as a tuple; a text is refused, because it would come apart into its characters."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidDevice(device_id, f"{name} {values!r} is not a list")
    return tuple(values)


def _mapping_of(device_id: str, name: str, values: Mapping[str, _Item] | None) -> dict[str, _Item]:
    if values is not None and not isinstance(values, Mapping):
        raise InvalidDevice(device_id, f"{name} {values!r} is not a mapping")
    return dict(values or {})
