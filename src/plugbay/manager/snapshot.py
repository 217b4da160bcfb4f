"""What an onlooker sees of the manager at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from plugbay.manager.state import EndpointState, Live, ManagerState, Resource
from plugbay.model.health import HealthState
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName

UNKNOWN: Final = HealthState.UNKNOWN.value


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
        last_health: the plugin's text from before it went away; empty while ``health`` is as good.
        reason: why it is not healthy, or was not; see `plugbay.model.devices.ListedDevice`.
        numa_nodes: None when the plugin gave no topology.
        holder: pod and container; of an init container and the one that took its device over, the later one.
        is_releasing: nobody holds it, and its plugin has yet to confirm Deallocate.
    """

    id: DeviceId
    health: str
    numa_nodes: tuple[int, ...] | None
    holder: tuple[PodUid, ContainerName] | None
    is_releasing: bool = False
    last_health: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ResourceSnapshot:
    name: ResourceName
    count: ResourceCount
    endpoint: EndpointState
    devices: tuple[DeviceSnapshot, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All resources, sorted by name; devices sorted by ID."""

    resources: tuple[ResourceSnapshot, ...]


def take(state: ManagerState) -> Snapshot:
    return Snapshot(tuple(resources(state)))


def resources(state: ManagerState) -> Iterator[ResourceSnapshot]:
    """As in a snapshot, each made when it is asked for; the holders are those of the moment when the first one is."""
    holders: dict[ResourceName, dict[DeviceId, tuple[PodUid, ContainerName]]] = {}
    for assignment in state.assignments():
        by_device = holders.setdefault(assignment.resource, {})
        by_device.update(dict.fromkeys(assignment.devices, (assignment.pod, assignment.container)))
    for resource in sorted(state.resources.values(), key=lambda resource: resource.name):
        yield _resource(resource, holders.get(resource.name, {}))


def count(resource: Resource) -> ResourceCount:
    return ResourceCount(resource.capacity, resource.allocatable)


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
        DeviceSnapshot(device_id, UNKNOWN, None, holders.get(device_id), device_id in releasing)
        for device_id in holders.keys() | releasing
        if device_id not in resource.listed.ranks
    ]
    return ResourceSnapshot(
        resource.name, count(resource), resource.endpoint, tuple(sorted(devices, key=lambda device: device.id))
    )
