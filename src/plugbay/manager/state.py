"""The manager's state: devices, endpoint and claims of each resource, and the assignments of each pod.

It changes in place, and a change costs O(change). Nothing is kept twice: capacity, allocatable and free devices are
computed from the device table and the claims. Source: kubelet 1.36 ``cm/devicemanager/manager.go``,
``pod_devices.go``; spec 0.2.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from enum import Enum
from typing import Final

from plugbay.allocation.table import NO_DEVICES, DeviceTable
from plugbay.model.devices import PluginOptions
from plugbay.model.health import HealthState
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.values import dataclass

MOST_MOMENTS: Final = 50
"""A plugin that registers without a pause must not fill memory."""

NO_NUMA_NODE = -1
"""The node under which a device without NUMA information is recorded, in checkpoints too."""


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """Devices of one resource that one container of a pod holds, and the plugin's answer.

    Attributes:
        by_node: NUMA node at allocation time to devices; a device with several nodes appears under each of them.
        response: encoded ContainerAllocateResponse.
    """

    pod: PodUid
    container: ContainerName
    resource: ResourceName
    by_node: Mapping[int, tuple[DeviceId, ...]]
    response: bytes

    @property
    def devices(self) -> frozenset[DeviceId]:
        return frozenset(device_id for ids in self.by_node.values() for device_id in ids)


@dataclass(frozen=True, slots=True)
class Live:
    """The plugin is connected."""

    socket: str
    since: datetime
    options: PluginOptions


@dataclass(frozen=True, slots=True)
class Stopped:
    """The plugin's stream has ended; it has a grace period to come back. Its last options are still known."""

    socket: str
    since: datetime
    options: PluginOptions


@dataclass(frozen=True, slots=True)
class Restored:
    """Known from the store only; nothing of the plugin is known until it registers.

    Attributes:
        wants_pre_start: whether its plugin wanted PreStartContainer when it was last registered with us.
    """

    since: datetime
    wants_pre_start: bool = False


@dataclass(frozen=True, slots=True)
class Expired:
    """The plugin did not come back in time, or only assignments name the resource.

    Attributes:
        options: the last options of its plugin, if a plugin was registered since we started.
    """

    options: PluginOptions | None = None


EndpointState = Live | Stopped | Restored | Expired


class EndpointEvent(Enum):
    """A step in the life of a plugin; the value is the word for users."""

    RESTORED = "known from before the node's start"
    REGISTERED = "registered"
    LISTED = "sent its first list"
    ENDED = "its stream ended"
    TOOK_OVER = "took over, as an older plugin that is still there"
    GONE = "did not come back in time"


@dataclass(frozen=True, slots=True)
class EndpointMoment:
    """One step.

    Attributes:
        socket: the name of the plugin's socket; empty where no plugin is connected.
    """

    at: datetime
    event: EndpointEvent
    socket: str = ""


class EndpointLife:
    """The last steps, and counts since the start.

    Attributes:
        registrations: those that were taken.
        open_streams: plugins that are connected now, older ones that stand by included.
    """

    def __init__(self) -> None:
        self._moments = deque[EndpointMoment](maxlen=MOST_MOMENTS)
        self.registrations = 0
        self.open_streams = 0

    @property
    def moments(self) -> Sequence[EndpointMoment]:
        """Oldest first."""
        return tuple(self._moments)

    def note(self, at: datetime, event: EndpointEvent, socket: str = "") -> None:
        self._moments.append(EndpointMoment(at, event, socket))
        if event is EndpointEvent.REGISTERED:
            self.registrations += 1
            self.open_streams += 1
        elif event is EndpointEvent.ENDED:
            self.open_streams -= 1


@dataclass(slots=True)
class Resource:
    """One resource: its last list, its endpoint and the claims on its devices."""

    name: ResourceName
    endpoint: EndpointState
    table: DeviceTable | None = None
    """The last list, without healthy devices once the plugin is gone. None before the first list and after expiry:
    pods that ask for the resource are then refused as asking for an unregistered one."""
    expired_table: DeviceTable = NO_DEVICES
    """The last list of a plugin that did not come back: it tells where the devices lie that pods still hold."""
    claims: Counter[DeviceId] = field(default_factory=Counter)
    """The number of assignments and pending admissions that name a device; reuse in a pod makes it more than one."""
    claimed: int = 0
    """`claims` as a set over the ranks of `table`."""
    releasing: set[DeviceId] = field(default_factory=set)
    """Devices that no pod holds but whose plugin has yet to confirm Deallocate; each is claimed once for that."""
    life: EndpointLife = field(default_factory=EndpointLife)

    @property
    def is_counted(self) -> bool:
        """Whether the node object shows the resource, which it does from the first list of its plugin on (spec 3.1)."""
        return not (isinstance(self.endpoint, Live) and self.table is None and self.expired_table is NO_DEVICES)

    @property
    def listed(self) -> DeviceTable:
        return self.table or NO_DEVICES

    @property
    def healthy(self) -> int:
        """The set of healthy devices, in use or not."""
        return self.listed.healthy

    @property
    def unhealthy_claims(self) -> frozenset[DeviceId]:
        """Claimed devices that the plugin last called unhealthy, whether it is still there or not."""
        return frozenset(device_id for device_id in self.claims if self.health(device_id) is HealthState.UNHEALTHY)

    def health(self, device_id: DeviceId) -> HealthState:
        """A device's health for a pod's status: a device that is not listed counts as healthy (spec 3.4)."""
        rank = self.listed.ranks.get(device_id)
        is_healthy = rank is None or self.listed.devices[rank].is_healthy
        return HealthState.HEALTHY if is_healthy else HealthState.UNHEALTHY

    @property
    def capacity(self) -> int:
        """Number of devices, healthy or not."""
        return len(self.listed.devices)

    def claim(self, devices: Iterable[DeviceId]) -> None:
        for device_id in devices:
            self.claims[device_id] += 1
            if (rank := self.listed.ranks.get(device_id)) is not None:
                self.claimed |= 1 << rank

    def unclaim(self, devices: Iterable[DeviceId]) -> None:
        for device_id in devices:
            self.claims[device_id] -= 1
            if self.claims[device_id] > 0:
                continue
            del self.claims[device_id]
            if (rank := self.listed.ranks.get(device_id)) is not None:
                self.claimed &= ~(1 << rank)

    def start_releasing(self, devices: Iterable[DeviceId]) -> None:
        """Keep devices out of use until `end_releasing`."""
        fresh = set(devices) - self.releasing
        self.claim(fresh)
        self.releasing |= fresh

    def end_releasing(self, devices: Iterable[DeviceId]) -> None:
        """Let devices be given out again: they are clean."""
        clean = self.releasing.intersection(devices)
        self.unclaim(clean)
        self.releasing -= clean

    @property
    def in_use(self) -> int:
        """Number of devices that pods hold, or are being given."""
        return len(self.claims) - len(self.releasing)

    @property
    def allocatable(self) -> int:
        """Number of devices that are healthy and not being released, in use or not."""
        return (self.healthy & ~self.listed.set_of(self.releasing)).bit_count()

    def replace_table(self, table: DeviceTable) -> None:
        """Take over a new list; claims stay with their device IDs, listed or not."""
        if self.table is None or table.ranks is not self.table.ranks:
            self.claimed = table.set_of(self.claims)
        self.table = table

    def disconnect(self, since: datetime) -> Stopped:
        """Note that the plugin is gone: no device is healthy, but the devices still count."""
        assert isinstance(self.endpoint, Live)
        self.endpoint = Stopped(self.endpoint.socket, since, self.endpoint.options)
        self.table = replace(self.listed, healthy=0)
        return self.endpoint

    def restore(self, since: datetime, *, wants_pre_start: bool = False) -> Restored:
        """Note that the resource is known from before a restart: it has no devices until the plugin registers."""
        self.endpoint = Restored(since, wants_pre_start)
        self.table = NO_DEVICES
        return self.endpoint

    def expire(self) -> None:
        """Note that the plugin did not come back: the resource has no devices any more; claims stay."""
        self.endpoint = Expired(self.endpoint.options if isinstance(self.endpoint, Live | Stopped) else None)
        self.expired_table = self.listed
        self.table = None
        self.claimed = 0


ByResource = dict[ResourceName, HeldDevices]


class ManagerState:
    """All resources and assignments. Owned by one event loop; methods never wait.

    Attributes:
        granted: devices that plugins have allocated for pods that are being admitted. A pod owns none of them before it
            owns all; but a kubelet's checkpoint already lists them, and plugins rely on that.
    """

    def __init__(self) -> None:
        self.resources: dict[ResourceName, Resource] = {}
        self.granted: list[list[HeldDevices]] = []
        self._pods: dict[PodUid, dict[ContainerName, ByResource]] = {}

    def resource(self, name: ResourceName) -> Resource:
        """The resource; an unknown one is made, as a resource that only assignments name."""
        return self.resources.setdefault(name, Resource(name, Expired()))

    def assignment(self, pod: PodUid, container: ContainerName, resource: ResourceName) -> HeldDevices | None:
        return self._pods.get(pod, {}).get(container, {}).get(resource)

    def of_container(self, pod: PodUid, container: ContainerName) -> list[HeldDevices]:
        """The assignments of a container, sorted by resource name."""
        by_resource = self._pods.get(pod, {}).get(container, {})
        return [by_resource[name] for name in sorted(by_resource)]

    def of_pod(self, pod: PodUid) -> Iterator[HeldDevices]:
        for by_resource in self._pods.get(pod, {}).values():
            yield from by_resource.values()

    def holders(self, resource: ResourceName, devices: frozenset[DeviceId]) -> frozenset[PodUid]:
        """The pods that hold any of ``devices``. Looks at every assignment."""
        return frozenset(
            item.pod
            for item in self.assignments()
            if item.resource == resource and not devices.isdisjoint(item.devices)
        )

    def assignments(self) -> Iterator[HeldDevices]:
        for pod in self._pods:
            yield from self.of_pod(pod)

    def pods(self) -> frozenset[PodUid]:
        return frozenset(self._pods)

    def assign(self, assignment: HeldDevices) -> None:
        """Record an assignment whose devices are claimed already."""
        self._pods.setdefault(assignment.pod, {}).setdefault(assignment.container, {})[assignment.resource] = assignment

    def restore(self, assignment: HeldDevices) -> None:
        """Record an assignment read from the store, and claim its devices."""
        self.resource(assignment.resource).claim(assignment.devices)
        self.assign(assignment)

    def remove_pod(self, pod: PodUid) -> None:
        """Drop every assignment of a pod and the claims that go with them."""
        for assignment in self.of_pod(pod):
            self.resources[assignment.resource].unclaim(assignment.devices)
        self._pods.pop(pod, None)
