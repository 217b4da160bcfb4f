"""A node as the rows that the page shows: small JSON objects by keys, so that only rows that change are sent. Pure.

Keys: ``node``; ``r NAME`` for a resource; ``d NAME ID`` for a device; ``s NAME`` for a socket of a plugin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, TypeAlias

from plugbay.documents import Json
from plugbay.observe.view import (
    CheckpointFile,
    DeviceHolder,
    DeviceView,
    HealthWord,
    ObservedNode,
    PluginView,
    ResourceView,
    SocketView,
)
from plugbay.values import dataclass

Rows: TypeAlias = Mapping[str, Json]
NODE: Final = "node"


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The difference between two states of the rows."""

    put: Rows
    gone: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.put or self.gone)


def rows_of(view: ObservedNode, before: Rows) -> dict[str, Json]:
    """The rows of a view; a row that is as ``before`` is the same object."""
    rows: dict[str, Json] = {}
    for key, row in _rows(view):
        known = before.get(key)
        rows[key] = known if known == row and known is not None else row
    return rows


def changes_between(before: Rows, after: Rows) -> RowChanges:
    put = {key: row for key, row in after.items() if before.get(key) is not row}
    return RowChanges(put, tuple(key for key in before if key not in after))


def _rows(view: ObservedNode) -> Iterator[tuple[str, Json]]:
    yield NODE, _node(view)
    for resource in view.resources:
        yield f"r {resource.name}", _resource(resource)
        for device in resource.devices:
            yield f"d {resource.name} {device.id}", _device(resource.name, device)
    for socket in view.sockets:
        yield f"s {socket.name}", _socket(socket)


def _node(view: ObservedNode) -> Json:
    return {
        "root": view.root,
        "isPartial": view.is_partial,
        "problems": [problem.sentence for problem in view.problems],
        "checkpoint": None if view.checkpoint is None else _checkpoint(view.checkpoint),
        "rejections": dict(view.rejections or {}),
    }


def _checkpoint(file: CheckpointFile) -> Json:
    return {"path": file.path, "problem": file.problem}


def _resource(resource: ResourceView) -> Json:
    return {
        "name": resource.name,
        "capacity": resource.capacity,
        "allocatable": resource.allocatable,
        "allocated": resource.allocated,
        "free": resource.free,
        "unhealthy": sum(device.health.word is HealthWord.UNHEALTHY for device in resource.devices),
        "plugin": None if resource.plugin is None else _plugin(resource.plugin),
    }


def _plugin(plugin: PluginView) -> Json:
    return {
        "state": plugin.state,
        "socket": plugin.socket,
        "since": _moment(plugin.since),
        "reason": plugin.reason,
    }


def _device(resource: str, device: DeviceView) -> Json:
    return {
        "resource": resource,
        "id": device.id,
        "health": device.health.word.value,
        "reason": device.health.reason,
        "message": device.health.message,
        "since": _moment(device.health.since),
        "numa": None if device.numa_nodes is None else list(device.numa_nodes),
        "paths": list(device.host_paths),
        "holders": [_holder(each) for each in device.holders],
        "isReleasing": device.is_releasing,
        "disagreements": list(device.disagreements),
    }


def _holder(holder: DeviceHolder) -> Json:
    return {
        "namespace": holder.namespace,
        "pod": holder.pod,
        "container": holder.container,
        "uid": holder.uid,
        "since": _moment(holder.since),
        "requestedBy": holder.requested_by,
    }


def _socket(socket: SocketView) -> Json:
    return {
        "name": socket.name,
        "made": _moment(socket.made),
        "isListening": socket.is_listening,
        "pid": socket.pid,
        "command": socket.command,
        "problem": socket.problem,
    }


def _moment(moment: datetime | None) -> float | None:
    """Seconds since 1970, as a browser counts its own time."""
    return None if moment is None else moment.timestamp()
