"""The tables that an API server prints, in place of objects, for ``kubectl get``. Pure.

Source: Kubernetes 1.36 ``pkg/printers/internalversion/printers.go``; ``apimachinery/pkg/apis/meta/v1/types.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from plugbay.documents import Json
from plugbay.printers import v1
from plugbay.printers.ages import age
from plugbay.printers.pod_status import summarize
from plugbay.values import dataclass

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
_ROLE: Final = "node-role.kubernetes.io/"

Cell = str | int | float | None
"""None where an object has no value for it."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        is_wide: whether kubectl shows it only with ``-o wide``.
        kind: ``string`` or ``integer``.
        form: ``name`` for the column that names the object.
    """

    name: str
    description: str
    is_wide: bool = False
    kind: str = "string"
    form: str = ""

    def definition(self) -> Json:
        return {
            "name": self.name,
            "type": self.kind,
            "format": self.form,
            "description": self.description,
            "priority": int(self.is_wide),
        }


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of one kind of objects, and the cells of one object at a moment."""

    columns: tuple[Column, ...]
    cells: Callable[[Json, datetime], Sequence[Cell]]


NAME: Final = Column("Name", "The name, unique within a namespace", form="name")
AGE: Final = Column("Age", "The time since it was created")


def age_cell(value: Json, now: datetime) -> str:
    return age(v1.moment(value, "metadata", "creationTimestamp"), now)


def _plain_cells(value: Json, now: datetime) -> Sequence[Cell]:
    return v1.name(value), age_cell(value, now)


PLAIN: Final = TableColumns((NAME, AGE), _plain_cells)


def _pod_cells(pod: Json, now: datetime) -> Sequence[Cell]:
    summary = summarize(pod)
    ips = v1.objects(pod, "status", "podIPs")
    gates = [v1.text(each, "conditionType") for each in v1.objects(pod, "spec", "readinessGates")]
    held = {v1.text(each, "type") for each in v1.objects(pod, "status", "conditions") if each.get("status") == "True"}
    return (
        v1.name(pod),
        summary.readiness,
        summary.status,
        summary.restarts_text(now),
        age_cell(pod, now),
        next((v1.text(each, "ip") for each in ips), NONE),
        v1.text(pod, "spec", "nodeName") or NONE,
        v1.text(pod, "status", "nominatedNodeName") or NONE,
        f"{sum(gate in held for gate in gates)}/{len(gates)}" if gates else NONE,
    )


PODS: Final = TableColumns(
    (
        NAME,
        Column("Ready", "How many of its containers are ready"),
        Column("Status", "The state of the pod and its containers"),
        Column("Restarts", "How often its containers were restarted, and when last"),
        AGE,
        Column("IP", "Its address", is_wide=True),
        Column("Node", "The node that it is bound to", is_wide=True),
        Column("Nominated Node", "The node that it may be bound to", is_wide=True),
        Column("Readiness Gates", "Further conditions of its readiness", is_wide=True),
    ),
    _pod_cells,
)


def _node_cells(node: Json, now: datetime) -> Sequence[Cell]:
    details = v1.mapping(node, "status", "nodeInfo")
    addresses = {v1.text(each, "type"): v1.text(each, "address") for each in v1.objects(node, "status", "addresses")}
    roles = [name.removeprefix(_ROLE) for name in v1.mapping(node, "metadata", "labels") if name.startswith(_ROLE)]
    return (
        v1.name(node),
        node_status(node),
        ",".join(sorted(roles)) or NONE,
        age_cell(node, now),
        v1.text(details, "kubeletVersion"),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        v1.text(details, "osImage") or UNKNOWN,
        v1.text(details, "kernelVersion") or UNKNOWN,
        v1.text(details, "containerRuntimeVersion") or UNKNOWN,
    )


def node_status(node: Json) -> str:
    """``Ready``, and whether the node takes no more pods."""
    ready = (each for each in v1.objects(node, "status", "conditions") if each.get("type") == "Ready")
    words = ["Ready" if each.get("status") == "True" else "NotReady" for each in ready] or ["Unknown"]
    if is_unschedulable(node):
        words.append("SchedulingDisabled")
    return ",".join(words)


def is_unschedulable(node: Json) -> bool:
    return v1.at(node, "spec", "unschedulable") is True


NODES: Final = TableColumns(
    (
        NAME,
        Column("Status", "Whether it is ready, and takes pods"),
        Column("Roles", "Its roles, as its labels tell"),
        AGE,
        Column("Version", "The version of its kubelet"),
        Column("Internal-IP", "Its address in the cluster", is_wide=True),
        Column("External-IP", "Its address outside of the cluster", is_wide=True),
        Column("OS-Image", "Its operating system", is_wide=True),
        Column("Kernel-Version", "Its kernel", is_wide=True),
        Column("Container-Runtime", "The program that runs containers", is_wide=True),
    ),
    _node_cells,
)


def _event_cells(event: Json, now: datetime) -> Sequence[Cell]:
    first = v1.moment(event, "firstTimestamp") or v1.moment(event, "eventTime")
    last = v1.moment(event, "lastTimestamp") or v1.moment(event, "series", "lastObservedTime") or first
    about = f"{v1.text(event, 'involvedObject', 'kind').lower()}/{v1.text(event, 'involvedObject', 'name')}"
    host = v1.text(event, "source", "host")
    component = v1.text(event, "source", "component") or v1.text(event, "reportingComponent")
    return (
        age(last, now),
        v1.text(event, "type"),
        v1.text(event, "reason"),
        about,
        v1.text(event, "message").strip(),
        v1.text(event, "involvedObject", "fieldPath"),
        f"{component}, {host}" if host else component,
        age(first, now),
        max(v1.number(event, "count"), v1.number(event, "series", "count"), 1),
        v1.name(event),
    )


EVENTS: Final = TableColumns(
    (
        Column("Last Seen", "The time since it was last seen"),
        Column("Type", "Normal or Warning"),
        Column("Reason", "The reason, one word"),
        Column("Object", "The object that it is about"),
        Column("Message", "A sentence"),
        Column("Subobject", "The part of the object that it is about", is_wide=True),
        Column("Source", "The program that tells it", is_wide=True),
        Column("First Seen", "The time since it was first seen", is_wide=True),
        Column("Count", "How often it was seen", is_wide=True, kind="integer"),
        Column("Name", "The name of the event", is_wide=True, form="name"),
    ),
    _event_cells,
)


def _namespace_cells(namespace: Json, now: datetime) -> Sequence[Cell]:
    return v1.name(namespace), v1.text(namespace, "status", "phase"), age_cell(namespace, now)


NAMESPACES: Final = TableColumns((NAME, Column("Status", "Active or Terminating"), AGE), _namespace_cells)
