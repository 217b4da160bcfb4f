"""The rows of kubectl-like tables, from v1 objects. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

from plugbay.cli.kubectl.holdings import container_holdings, pod_holdings
from plugbay.cli.printing.table import NONE
from plugbay.documents import Json
from plugbay.model.ids import is_extended_resource
from plugbay.printers import v1
from plugbay.printers.ages import age
from plugbay.printers.pod_status import summarize
from plugbay.printers.tables import node_status
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class View:
    """A table of one kind of objects: ``rows`` makes the rows of one as it is at a moment."""

    header: tuple[str, ...]
    rows: Callable[[Json, datetime], Sequence[tuple[str, ...]]]

    @classmethod
    def of_rows(cls, header: tuple[str, ...], row: Callable[[Json, datetime], tuple[str, ...]]) -> View:
        """The table of pods, with one row for each."""
        return cls(header, lambda each, now: [row(each, now)])

    def with_namespaces(self) -> View:
        return View(
            ("NAMESPACE", *self.header),
            lambda each, now: [(v1.namespace(each), *row) for row in self.rows(each, now)],
        )


def pod_view() -> View:
    return View.of_rows(("NAME", "READY", "STATUS", "RESTARTS", "AGE"), _pod_row)


def wide_pod_view(devices: Json) -> View:
    """The wide table of pods: with the node, and with devices from the node's answer ``devices``."""
    header = (*pod_view().header, "NODE", "DEVICES")
    return View.of_rows(header, lambda pod, now: (*_pod_row(pod, now), *_pod_place(pod, devices)))


def _pod_row(pod: Json, now: datetime) -> tuple[str, ...]:
    summary = summarize(pod)
    created = age(v1.moment(pod, "metadata", "creationTimestamp"), now)
    return v1.name(pod), summary.readiness, summary.status, summary.restarts_text(now), created


def _pod_place(pod: Json, devices: Json) -> tuple[str, str]:
    holdings = pod_holdings(devices, v1.uid(pod))
    spec = v1.objects(pod, "spec", "initContainers") + v1.objects(pod, "spec", "containers")
    given: dict[str, set[str]] = {}
    for container in spec:
        for each in v1.objects(container_holdings(holdings, v1.text(container, "name")), "devices"):
            given.setdefault(v1.text(each, "resourceName"), set()).update(v1.texts(each, "deviceIDs"))
    shown = [f"{resource}={','.join(sorted(ids))}" for resource, ids in sorted(given.items())]
    return v1.text(pod, "spec", "nodeName") or NONE, " ".join(shown) or NONE


_AMOUNTS: Final = ("RESOURCE", "ALLOCATABLE", "CAPACITY")


def node_view() -> View:
    """The table of nodes, with a row for each extended resource of which the node has devices."""
    header = ("NAME", "STATUS", "AGE", "VERSION", *_AMOUNTS)
    return View(header, lambda node, now: _beside(_node_row(node, now), _amounts(node, with_gone=False)))


def wide_node_view() -> View:
    """The wide table of nodes: with the node's software, and with resources whose devices are all gone."""
    header = ("NAME", "STATUS", "AGE", "VERSION", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME", *_AMOUNTS)
    return View(
        header,
        lambda node, now: _beside((*_node_row(node, now), *_node_software(node)), _amounts(node, with_gone=True)),
    )


def _beside(first: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Sequence[tuple[str, ...]]:
    """``first`` before the first of ``rows``, and room before the others."""
    room = ("",) * len(first)
    return [(*(room if index else first), *row) for index, row in enumerate(rows)]


def _amounts(node: Json, *, with_gone: bool) -> Sequence[tuple[str, str, str]]:
    capacity, allocatable = (v1.mapping(node, "status", which) for which in ("capacity", "allocatable"))
    rows = [(name, v1.text(allocatable, name) or "0", amount) for name, amount in extended(capacity).items()]
    there = [row for row in rows if row[2] != "0"]
    gone = [row for row in rows if row[2] == "0"] if with_gone else []
    return [*there, *gone] or [(NONE, NONE, NONE)]


def extended(amounts: Json) -> dict[str, str]:
    """The extended resources among ``amounts``, by name."""
    return {name: str(amount) for name, amount in sorted(amounts.items()) if is_extended_resource(name)}


def _node_row(node: Json, now: datetime) -> tuple[str, ...]:
    created = age(v1.moment(node, "metadata", "creationTimestamp"), now)
    return v1.name(node), node_status(node), created, v1.text(node, "status", "nodeInfo", "kubeletVersion")


def _node_software(node: Json) -> tuple[str, ...]:
    keys = ("osImage", "kernelVersion", "containerRuntimeVersion")
    return tuple(v1.text(node, "status", "nodeInfo", key) or NONE for key in keys)


def event_view() -> View:
    return View.of_rows(("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"), _event_row)


def wide_event_view() -> View:
    header = (*event_view().header, "SOURCE", "FIRST SEEN", "COUNT", "NAME")
    return View.of_rows(header, lambda event, now: (*_event_row(event, now), *_event_details(event, now)))


def seen(event: Json, now: datetime) -> str:
    """How long ago an event was seen, and how often: ``5s`` or ``5s (x3 over 2m)``.

    Source: kubectl 1.36 ``cmd/events/event_printer.go``, ``getInterval``.
    """
    first = age(v1.moment(event, "firstTimestamp"), now)
    count = v1.number(event, "count")
    if count <= 1:
        return first
    return f"{age(v1.moment(event, 'lastTimestamp'), now)} (x{count} over {first})"


def oldest_first(events: Iterable[Json]) -> list[Json]:
    """Sort events by time, and those of one second in the order in which they happened."""
    return sorted(events, key=lambda event: (v1.text(event, "lastTimestamp"), _version(event)))


def _version(value: Json) -> int:
    text = v1.text(value, "metadata", "resourceVersion")
    return int(text) if text.isdecimal() else 0


def _event_row(event: Json, now: datetime) -> tuple[str, ...]:
    about = f"{v1.text(event, 'involvedObject', 'kind')}/{v1.text(event, 'involvedObject', 'name')}"
    message = v1.text(event, "message").strip()
    return seen(event, now), v1.text(event, "type"), v1.text(event, "reason"), about, message


def _event_details(event: Json, now: datetime) -> tuple[str, ...]:
    first = age(v1.moment(event, "firstTimestamp"), now)
    return v1.text(event, "source", "component"), first, str(v1.number(event, "count")), v1.name(event)
