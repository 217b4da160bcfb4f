"""A node as the rows that the page shows, by keys, so that only rows that change are sent. Pure.

Keys: ``node``; ``r NAME`` for a resource; ``d NAME ID`` for a device; ``s NAME`` for a socket of a plugin; ``p UID``
for a pod that was rejected. A row is what was seen, and becomes JSON when it is sent: ten thousand of them are there
all the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Final, TypeAlias

from plugbay.documents import Json
from plugbay.observe.objects import (
    checkpoint_object,
    device_object,
    holder_object,
    rejected_object,
    resource_object,
    socket_object,
    time_text,
)
from plugbay.observe.view import (
    NEEDED,
    CheckpointFile,
    DeviceView,
    ObservedNode,
    PluginView,
    RejectedPod,
    ResourceView,
    SocketView,
    Witness,
)
from plugbay.values import dataclass

NODE: Final = "node"
_KEPT: Final = "Devices and pods are shown as they were when all sources could be read."
_LACKING: Final = {
    frozenset({Witness.POD_RESOURCES}): "The kubelet does not answer: devices and pods are shown as files have them.",
    frozenset({Witness.CHECKPOINT}): "The checkpoint cannot be read: pods that hold devices may be missing.",
    NEEDED: "Neither the kubelet nor its checkpoint can be read: devices and pods may be missing.",
}


@dataclass(frozen=True, slots=True)
class NodeRow:
    """The node as a whole.

    Attributes:
        lacking: a sentence on what is shown while a source that knows of holders is missing; empty while none is.
        as_of: when the devices that are shown were read, if that was before.
        problems: sentences about sources that could not be read.
        checkpoint: without the moment at which it was written, as a file that is only written anew is not a change.
    """

    name: str
    root: str
    lacking: str
    as_of: datetime | None
    problems: tuple[str, ...]
    checkpoint: CheckpointFile | None
    rejections: tuple[tuple[str, int], ...]
    checkpoint_written: datetime | None = field(compare=False)


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """A resource without its devices.

    Attributes:
        counts: allocated, allocatable and capacity.
        told: all of it, as JSON.
    """

    name: str
    counts: tuple[int | None, int | None, int | None]
    plugin: PluginView | None
    told: Json


@dataclass(frozen=True, slots=True)
class DeviceRow:
    resource: str
    device: DeviceView


PageRow: TypeAlias = NodeRow | ResourceRow | DeviceRow | SocketView | RejectedPod
Rows: TypeAlias = Mapping[str, PageRow]


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The changes of the rows.

    Attributes:
        put: rows that are new or differ, by key.
        gone: keys of rows that are not there any more.
    """

    put: Rows
    gone: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.put or self.gone)


def rows_of(view: ObservedNode) -> Rows:
    return dict(_rows(view))


def node_row(view: ObservedNode, *, kept: ObservedNode | None = None) -> NodeRow:
    """The row of a view.

    Args:
        kept: an earlier view, whose devices are shown instead, since this one lacks a source.
    """
    checkpoint = view.checkpoint
    return NodeRow(
        view.name,
        view.root,
        _KEPT if kept is not None else _lacking(view),
        None if kept is None else kept.taken,
        tuple(problem.sentence for problem in view.problems),
        None if checkpoint is None else replace(checkpoint, written=None),
        tuple(sorted((view.rejections or {}).items())),
        None if checkpoint is None else checkpoint.written,
    )


def changes_between(before: Rows, after: Rows) -> RowChanges:
    put = {key: row for key, row in after.items() if before.get(key) != row}
    return RowChanges(put, tuple(key for key in before if key not in after))


def row_object(row: PageRow) -> Json:
    """A row as JSON."""
    match row:
        case DeviceRow(resource, device):
            return {**device_object(resource, device), "holders": [holder_object(each) for each in device.holders]}
        case ResourceRow():
            return row.told
        case SocketView():
            return socket_object(row)
        case RejectedPod():
            return rejected_object(row)
        case NodeRow():
            file = row.checkpoint and replace(row.checkpoint, written=row.checkpoint_written)
            return {
                "name": row.name,
                "kubeletRoot": row.root,
                "partial": bool(row.lacking),
                "lacking": row.lacking,
                "asOf": time_text(row.as_of),
                "problems": list(row.problems),
                "checkpoint": None if file is None else checkpoint_object(file),
                "rejections": dict(row.rejections),
            }


def _rows(view: ObservedNode) -> Iterator[tuple[str, PageRow]]:
    yield NODE, node_row(view)
    for resource in view.resources:
        yield f"r {resource.name}", _resource(resource)
    for socket in view.sockets:
        yield f"s {socket.name}", socket
    for pod in view.rejected:
        yield f"p {pod.uid}", pod
    for resource in view.resources:
        for device in resource.devices:
            yield f"d {resource.name} {device.id}", DeviceRow(resource.name, device)


def _lacking(view: ObservedNode) -> str:
    missing = {each.witness for each in view.problems if each.witness in NEEDED and not each.is_lasting}
    return _LACKING[frozenset(missing)] if missing else ""


def _resource(resource: ResourceView) -> ResourceRow:
    counts = resource.allocated, resource.allocatable, resource.capacity
    return ResourceRow(resource.name, counts, resource.plugin, resource_object(resource))
