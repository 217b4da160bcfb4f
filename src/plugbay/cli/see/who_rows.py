"""Devices and their holders as rows and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from plugbay.cli.printing.table import NONE
from plugbay.documents import Json
from plugbay.observe.view import (
    DeviceHealth,
    DeviceHolder,
    DeviceView,
    ExclusiveView,
    ObservedNode,
    PluginView,
    ResourceView,
)
from plugbay.printers.ages import age
from plugbay.values import dataclass

HEADER: Final = ("RESOURCE", "DEVICE", "HEALTH", "NUMA", "NAMESPACE", "POD", "CONTAINER", "SINCE")
WIDE_HEADER: Final = (*HEADER, "HOST-PATH", "REQUESTED-BY", "UID", "PLUGIN", "SAID-BY")
RELEASING: Final = "<releasing>"


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """One line: a device and one of its holders, or None for a device that nothing holds."""

    resource: ResourceView
    device: DeviceView
    holder: DeviceHolder | None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.resource.name, self.device.id, str(self.holder or "")


def uses_of(view: ObservedNode) -> Iterator[DeviceUse]:
    """A use for each holder of each device, and one for each device without."""
    for resource in view.resources:
        for device in resource.devices:
            for holder in device.holders or (None,):
                yield DeviceUse(resource, device, holder)


def row(use: DeviceUse, now: datetime) -> tuple[str, ...]:
    device, holder = use.device, use.holder
    numa = ",".join(map(str, device.numa_nodes or ())) or NONE
    first = (use.resource.name, device.id, str(device.health), numa)
    if holder is None:
        return (*first, NONE, RELEASING if device.is_releasing else NONE, NONE, NONE)
    since = age(holder.since, now) if holder.since else NONE
    return (*first, holder.namespace or NONE, holder.pod or f"uid:{holder.uid}", holder.container or NONE, since)


def wide_row(use: DeviceUse, now: datetime) -> tuple[str, ...]:
    device, holder, plugin = use.device, use.holder, use.resource.plugin
    return (
        *row(use, now),
        ",".join(device.host_paths) or NONE,
        (holder.requested_by if holder else "") or NONE,
        (holder.uid if holder else "") or NONE,
        (plugin.state or NONE) if plugin else NONE,
        ",".join(sorted(each.value for each in holder.witnesses)) if holder else NONE,
    )


def use_object(use: DeviceUse) -> Json:
    device = use.device
    return {
        "resourceName": use.resource.name,
        "id": device.id,
        "health": _health(device.health),
        "numaNodes": None if device.numa_nodes is None else list(device.numa_nodes),
        "hostPaths": list(device.host_paths),
        "releasing": device.is_releasing,
        "holder": None if use.holder is None else _holder(use.holder),
        "disagreements": list(device.disagreements),
    }


def node_object(view: ObservedNode, uses: list[DeviceUse]) -> Json:
    """The uses as a list in the form of v1, with all else that is known of the node beside."""
    checkpoint = view.checkpoint
    return {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {"resourceVersion": ""},
        "items": [use_object(use) for use in uses],
        "kubeletRoot": view.root,
        "time": _time(view.taken),
        "partial": view.is_partial,
        "problems": [{"source": each.witness.value, "message": each.sentence} for each in view.problems],
        "resources": [_resource(each) for each in view.resources],
        "sockets": [
            {"name": each.name, "made": _time(each.made), "pid": each.pid, "command": each.command}
            for each in view.sockets
        ],
        "checkpoint": None
        if checkpoint is None
        else {"path": checkpoint.path, "written": _time(checkpoint.written), "problem": checkpoint.problem},
        "exclusive": _exclusive(view.exclusive),
    }


def escaped(text: str) -> str:
    """JSON or YAML with the escapes of both for what is not printable; that can only stand in its strings."""
    return "".join(each if each.isprintable() or each == "\n" else _escape(each) for each in text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def _resource(resource: ResourceView) -> Json:
    return {
        "resourceName": resource.name,
        "capacity": resource.capacity,
        "allocatable": resource.allocatable,
        "allocated": resource.allocated,
        "free": resource.free,
        "plugin": None if resource.plugin is None else _plugin(resource.plugin),
    }


def _plugin(plugin: PluginView) -> Json:
    return {
        "state": plugin.state,
        "socket": plugin.socket,
        "since": _time(plugin.since),
        "reason": plugin.reason,
    }


def _health(health: DeviceHealth) -> Json:
    return {
        "state": health.word.value,
        "reason": health.reason,
        "message": health.message,
        "since": _time(health.since),
        "source": health.witness.value if health.witness else None,
    }


def _holder(holder: DeviceHolder) -> Json:
    return {
        "namespace": holder.namespace,
        "pod": holder.pod,
        "container": holder.container,
        "uid": holder.uid,
        "since": _time(holder.since),
        "requestedBy": holder.requested_by,
        "sources": sorted(each.value for each in holder.witnesses),
    }


def _exclusive(exclusive: ExclusiveView) -> Json:
    cpus, shared = exclusive.allocatable_cpus, exclusive.shared_cpus
    return {
        "allocatableCpus": None if cpus is None else list(cpus),
        "sharedCpus": None if shared is None else list(shared),
        "containers": None
        if exclusive.uses is None
        else [{**_holder(use.holder), "cpus": list(use.cpus), "memory": dict(use.memory)} for use in exclusive.uses],
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds").replace("+00:00", "Z")
