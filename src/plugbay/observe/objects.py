"""The JSON of what is seen of a node, the same for ``plugbay who -o json`` and for the page. Pure."""

from __future__ import annotations

from datetime import datetime

from plugbay.documents import Json
from plugbay.observe.view import (
    CheckpointFile,
    DeviceHealth,
    DeviceHolder,
    DeviceView,
    PluginMoment,
    PluginView,
    RejectedPod,
    ResourceView,
    SocketView,
)


def device_object(resource: str, device: DeviceView) -> Json:
    """A device, without its holders."""
    return {
        "resourceName": resource,
        "id": device.id,
        "health": _health(device.health),
        "numaNodes": None if device.numa_nodes is None else list(device.numa_nodes),
        "hostPaths": list(device.host_paths),
        "releasing": device.is_releasing,
        "disagreements": list(device.disagreements),
    }


def holder_object(holder: DeviceHolder) -> Json:
    return {
        "namespace": holder.namespace,
        "pod": holder.pod,
        "container": holder.container,
        "uid": holder.uid,
        "since": time_text(holder.since),
        "requestedBy": holder.requested_by,
        "sources": sorted(each.value for each in holder.witnesses),
    }


def resource_object(resource: ResourceView) -> Json:
    """A resource, without its devices."""
    return {
        "resourceName": resource.name,
        "capacity": resource.capacity,
        "allocatable": resource.allocatable,
        "allocated": resource.allocated,
        "free": resource.free,
        "unhealthy": resource.unhealthy,
        "plugin": None if resource.plugin is None else _plugin(resource.plugin),
    }


def socket_object(socket: SocketView) -> Json:
    return {
        "name": socket.name,
        "made": time_text(socket.made),
        "listening": socket.is_listening,
        "pid": socket.pid,
        "command": socket.command,
        "problem": socket.problem,
    }


def rejected_object(pod: RejectedPod) -> Json:
    return {
        "namespace": pod.namespace,
        "pod": pod.pod,
        "uid": pod.uid,
        "time": time_text(pod.at),
        "reason": pod.reason,
        "message": pod.message,
    }


def checkpoint_object(file: CheckpointFile) -> Json:
    return {"path": file.path, "written": time_text(file.written), "problem": file.problem}


def time_text(moment: datetime | None) -> str | None:
    """RFC 3339, to the second."""
    return None if moment is None else moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _health(health: DeviceHealth) -> Json:
    return {
        "state": health.word.value,
        "reason": health.reason,
        "message": health.message,
        "since": time_text(health.since),
        "source": health.witness.value if health.witness else None,
    }


def _plugin(plugin: PluginView) -> Json:
    return {
        "state": plugin.state,
        "socket": plugin.socket,
        "since": time_text(plugin.since),
        "registered": time_text(plugin.registered),
        "reason": plugin.reason,
        "registrations": plugin.registrations,
        "openStreams": plugin.open_streams,
        "life": [_moment(each) for each in plugin.life],
    }


def _moment(moment: PluginMoment) -> Json:
    return {"time": time_text(moment.at), "text": moment.text, "socket": moment.socket}
