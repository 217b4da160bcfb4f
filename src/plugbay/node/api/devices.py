"""The devices of a node and the pods that hold them, as one object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from plugbay.documents import Json
from plugbay.manager.manager import DeviceManager
from plugbay.manager.serving.snapshot import DeviceSnapshot, LifeSnapshot, ResourceSnapshot
from plugbay.manager.state import EndpointState, Expired, Live, Restored, Stopped
from plugbay.model.devices import PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.owners import controller_of
from plugbay.model.pods import Pod
from plugbay.model.releases import Operation
from plugbay.pods.record import is_static
from plugbay.pods.status import timestamp
from plugbay.pods.store.table import PodTable


def devices_object(manager: DeviceManager, pods: PodTable) -> Json:
    """All resources, sorted by name, every pod that holds devices, and the calls to be confirmed, oldest first.

    For `plugbay.ops.slices.json_pieces`: what is long is an iterator.
    """
    return {
        "resources": (_resource(resource, pods) for resource in manager.resource_snapshots()),
        "pods": _holders(manager, pods),
        "releases": [_release(operation, pods) for operation in manager.release_operations()],
    }


def _holders(manager: DeviceManager, pods: PodTable) -> Iterator[Json]:
    for record in tuple(pods):
        if containers := manager.devices_of(record.uid):
            pod = record.pod
            yield {
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
                "since": timestamp(record.bound_at) if record.bound_at else "",
                "requestedBy": _requester(pod),
                "containers": [
                    _container(name, devices, manager.edits(pod.uid, name)) for name, devices in containers.items()
                ],
            }


def rejected_pods(pods: PodTable) -> Iterator[Json]:
    """The pods that the node did not admit and that are not deleted yet, oldest first; for `json_pieces`, too."""
    for record in tuple(pods):
        if record.rejection is not None:
            yield {
                "namespace": record.pod.namespace,
                "name": record.pod.name,
                "uid": record.uid,
                "time": timestamp(record.started_at) if record.started_at else "",
                "reason": record.rejection.reason,
                "message": record.rejection.message,
            }


def _requester(pod: Pod) -> str:
    """The object, or the manifest, that made a pod; empty for one that a client made by itself."""
    if is_static(pod):
        return "a static manifest"
    owner = controller_of(pod.owners)
    return f"{owner.kind}/{owner.name}" if owner else ""


def _resource(resource: ResourceSnapshot, pods: PodTable) -> Json:
    return {
        "resourceName": resource.name,
        "capacity": resource.count.capacity,
        "allocatable": resource.count.allocatable,
        "endpoint": _endpoint(resource.endpoint),
        "life": _life(resource.life),
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


def _life(life: LifeSnapshot) -> Json:
    return {
        "registrations": life.registrations,
        "openStreams": life.open_streams,
        "moments": [
            {"time": timestamp(each.at), "event": each.event.value, "socket": each.socket} for each in life.moments
        ],
    }


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
    """The pod and container that hold a device; a pod that is gone has no name, and its devices will soon be free."""
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
