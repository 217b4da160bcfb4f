"""Devices and who holds them, as one object: pure but for the view it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from plugbay.manager.operations import Operation
from plugbay.manager.snapshot import DeviceSnapshot, ResourceCount, ResourceSnapshot
from plugbay.manager.state import EndpointState, Expired, Live, Restored, Stopped
from plugbay.model.devices import PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.node.pods import PodTable
from plugbay.node.status import Json, timestamp


class DeviceView(Protocol):
    """What onlookers ask of a device manager; see `plugbay.manager.manager.DeviceManager`."""

    def resource_snapshots(self) -> Iterator[ResourceSnapshot]: ...

    def resources(self) -> Mapping[ResourceName, ResourceCount]: ...

    def devices_of(self, pod: PodUid) -> Mapping[ContainerName, Mapping[ResourceName, tuple[DeviceId, ...]]]: ...

    def edits(self, pod: PodUid, container: ContainerName) -> ContainerEdits: ...

    def release_operations(self) -> tuple[Operation, ...]: ...


def devices_object(view: DeviceView, pods: PodTable) -> Json:
    """All resources, sorted by name, every pod that holds devices, and the calls to be confirmed, oldest first.

    For `plugbay.ops.slices.json_pieces`: what is long is an iterator.
    """
    return {
        "resources": (_resource(resource, pods) for resource in view.resource_snapshots()),
        "pods": _holders(view, pods),
        "releases": [_release(operation, pods) for operation in view.release_operations()],
    }


def _holders(view: DeviceView, pods: PodTable) -> Iterator[Json]:
    for record in tuple(pods):
        if containers := view.devices_of(record.uid):
            pod = record.pod
            yield {
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
                "containers": [
                    _container(name, devices, view.edits(pod.uid, name)) for name, devices in containers.items()
                ],
            }


def _resource(resource: ResourceSnapshot, pods: PodTable) -> Json:
    return {
        "resourceName": resource.name,
        "capacity": resource.count.capacity,
        "allocatable": resource.count.allocatable,
        "endpoint": _endpoint(resource.endpoint),
        "devices": (_device(device, pods) for device in resource.devices),
    }


def _endpoint(endpoint: EndpointState) -> Json | None:
    match endpoint:
        case Live(socket, since, options) | Stopped(socket, since, options):
            return {
                "state": type(endpoint).__name__,
                "socket": socket,
                "since": timestamp(since),
                "options": _options(options),
            }
        case Restored(since, wants_pre_start):
            options = PluginOptions(pre_start_required=wants_pre_start)
            return {"state": "Restored", "socket": "", "since": timestamp(since), "options": _options(options)}
        case Expired():
            return None


def _options(options: PluginOptions) -> Json:
    return {
        "preStartRequired": options.pre_start_required,
        "getPreferredAllocationAvailable": options.get_preferred_allocation_available,
        "postStopRequired": options.post_stop_required,
        "deallocateRequired": options.deallocate_required,
    }


def _device(device: DeviceSnapshot, pods: PodTable) -> Json:
    return {
        "id": device.id,
        "health": device.health,
        "lastHealth": device.last_health,
        "reason": device.reason,
        "numaNodes": None if device.numa_nodes is None else list(device.numa_nodes),
        "holder": None if device.holder is None else _holder(*device.holder, pods),
        "releasing": device.is_releasing,
    }


def _release(operation: Operation, pods: PodTable) -> Json:
    return {
        "id": operation.id,
        "call": operation.kind.value,
        "resourceName": operation.resource,
        "deviceIDs": list(operation.devices),
        "holder": _holder(operation.pod, operation.container, pods),
        "reason": operation.reason.name,
        "since": timestamp(operation.due),
        "attempts": operation.attempts,
    }


def _holder(uid: PodUid, container: ContainerName, pods: PodTable) -> Json:
    """A pod that is no more, and whose devices are about to be freed, has no name."""
    pod = pods[uid].pod if uid in pods else None
    return {
        "namespace": pod.namespace if pod else "",
        "pod": pod.name if pod else "",
        "container": container,
        "uid": uid,
    }


def _container(
    name: ContainerName, devices: Mapping[ResourceName, tuple[DeviceId, ...]], edits: ContainerEdits
) -> Json:
    return {
        "name": name,
        "devices": [{"resourceName": resource, "deviceIDs": list(ids)} for resource, ids in sorted(devices.items())],
        "env": dict(edits.env),
        "mounts": [
            {"containerPath": mount.container_path, "hostPath": mount.host_path, "readOnly": mount.read_only}
            for mount in edits.mounts
        ],
        "deviceNodes": [
            {"containerPath": node.container_path, "hostPath": node.host_path, "permissions": node.permissions}
            for node in edits.device_nodes
        ],
        "cdiDevices": list(edits.cdi_devices),
    }
