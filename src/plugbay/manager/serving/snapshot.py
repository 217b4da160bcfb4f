"""Snapshots: the manager's resources, devices and their holders at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from plugbay.manager.state import EndpointMoment, EndpointState, Live, ManagerState, Resource
from plugbay.model.health import HealthState
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.values import dataclass

UNKNOWN: Final = HealthState.UNKNOWN.value
DevicesHealth = Mapping[ContainerName, Mapping[ResourceName, Mapping[DeviceId, HealthState]]]
"""Resources and devices in order of their names."""


@dataclass(frozen=True, slots=True)
class ResourceCount:
    """Capacity counts healthy and unhealthy devices, allocatable the healthy ones, in use or not,
    without those being released."""

    capacity: int
    allocatable: int


@dataclass(frozen=True, slots=True)
class DeviceSnapshot:
    """One device as onlookers see it.

    Attributes:
        health: the plugin's text; ``Unknown`` while the plugin is away, and for a device that is held or being
            released but not listed.
        last_health: the plugin's text from before it went away; empty while ``health`` is the plugin's.
        is_listed: whether it is in the plugin's last list.
        reason: why the device is not, or was not, healthy; see `plugbay.model.devices.ListedDevice`.
        numa_nodes: None when the plugin gave no topology.
        holder: pod and container; if a container took the device over from an init container, the later of the two.
        is_releasing: no pod holds the device, but its plugin has yet to confirm Deallocate.
    """

    id: DeviceId
    health: str
    numa_nodes: tuple[int, ...] | None
    holder: tuple[PodUid, ContainerName] | None
    is_releasing: bool = False
    last_health: str = ""
    reason: str = ""
    is_listed: bool = True


@dataclass(frozen=True, slots=True)
class LifeSnapshot:
    """The life of the plugins of a resource, as in `plugbay.manager.state.EndpointLife`."""

    registrations: int = 0
    open_streams: int = 0
    moments: tuple[EndpointMoment, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceSnapshot:
    name: ResourceName
    count: ResourceCount
    endpoint: EndpointState
    devices: tuple[DeviceSnapshot, ...]
    life: LifeSnapshot = LifeSnapshot()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All resources, sorted by name; devices sorted by ID."""

    resources: tuple[ResourceSnapshot, ...]


def take(state: ManagerState) -> Snapshot:
    return Snapshot(tuple(resources(state)))


def resources(state: ManagerState) -> Iterator[ResourceSnapshot]:
    """Yield the resources of a snapshot, each as it is when it is read; holders are as they are at the first read."""
    holders: dict[ResourceName, dict[DeviceId, tuple[PodUid, ContainerName]]] = {}
    for assignment in state.assignments():
        by_device = holders.setdefault(assignment.resource, {})
        by_device.update(dict.fromkeys(assignment.devices, (assignment.pod, assignment.container)))
    for resource in sorted(state.resources.values(), key=lambda resource: resource.name):
        yield _resource(resource, holders.get(resource.name, {}))


def count(resource: Resource) -> ResourceCount:
    return ResourceCount(resource.capacity, resource.allocatable)


def health_of(state: ManagerState, pod: PodUid) -> DevicesHealth:
    """The health of all devices that ``pod`` holds: ``Healthy`` or ``Unhealthy``."""
    found: dict[ContainerName, dict[ResourceName, dict[DeviceId, HealthState]]] = {}
    for item in sorted(state.of_pod(pod), key=lambda item: item.resource):
        resource = state.resources[item.resource]
        found.setdefault(item.container, {})[item.resource] = {
            device_id: resource.health(device_id) for device_id in sorted(item.devices)
        }
    return found


def _resource(resource: Resource, holders: dict[DeviceId, tuple[PodUid, ContainerName]]) -> ResourceSnapshot:
    releasing = resource.releasing
    is_live = isinstance(resource.endpoint, Live)
    devices = [
        DeviceSnapshot(
            device.id,
            device.health if is_live else UNKNOWN,
            device.numa_nodes,
            holders.get(device.id),
            device.id in releasing,
            "" if is_live else device.health,
            device.reason,
        )
        for device in resource.listed.devices
    ]
    devices += [
        DeviceSnapshot(device_id, UNKNOWN, None, holders.get(device_id), device_id in releasing, is_listed=False)
        for device_id in holders.keys() | releasing
        if device_id not in resource.listed.ranks
    ]
    devices.sort(key=lambda device: device.id)
    life = LifeSnapshot(resource.life.registrations, resource.life.open_streams, tuple(resource.life.moments))
    return ResourceSnapshot(resource.name, count(resource), resource.endpoint, tuple(devices), life)
