"""Devices and their holders as rows and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from plugbay.cli.printing.table import NONE
from plugbay.documents import Json
from plugbay.observe.objects import (
    checkpoint_object,
    device_object,
    holder_object,
    resource_object,
    socket_object,
    time_text,
)
from plugbay.observe.view import DeviceHolder, DeviceView, ExclusiveUse, ExclusiveView, ObservedNode, ResourceView
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
    holder = None if use.holder is None else holder_object(use.holder)
    return {**device_object(use.resource.name, use.device), "holder": holder}


def node_object(view: ObservedNode, uses: list[DeviceUse]) -> Json:
    """The uses as a list in the form of v1, with all else that is known of the node beside."""
    return {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {"resourceVersion": ""},
        "items": [use_object(use) for use in uses],
        "kubeletRoot": view.root,
        "time": time_text(view.taken),
        "partial": view.is_partial,
        "problems": [{"source": each.witness.value, "message": each.sentence} for each in view.problems],
        "resources": [resource_object(each) for each in view.resources],
        "sockets": [socket_object(each) for each in view.sockets],
        "checkpoint": None if view.checkpoint is None else checkpoint_object(view.checkpoint),
        "exclusive": _exclusive(view.exclusive),
    }


def escaped(text: str) -> str:
    """JSON or YAML with the escapes of both for what is not printable; that can only stand in its strings."""
    return "".join(each if each.isprintable() or each == "\n" else _escape(each) for each in text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def _exclusive(exclusive: ExclusiveView) -> Json:
    cpus, shared = exclusive.allocatable_cpus, exclusive.shared_cpus
    return {
        "allocatableCpus": None if cpus is None else list(cpus),
        "sharedCpus": None if shared is None else list(shared),
        "containers": None if exclusive.uses is None else [_exclusive_use(use) for use in exclusive.uses],
    }


def _exclusive_use(use: ExclusiveUse) -> Json:
    return {**holder_object(use.holder), "cpus": list(use.cpus), "memory": dict(use.memory)}
