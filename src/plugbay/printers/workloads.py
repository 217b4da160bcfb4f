"""The tables of ReplicaSets, Deployments, DaemonSets, their revisions, and Jobs. Pure.

Source: Kubernetes 1.36 ``pkg/printers/internalversion/printers.go``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from plugbay.documents import Json
from plugbay.printers import v1
from plugbay.printers.ages import duration
from plugbay.printers.tables import AGE, NAME, NONE, Cell, Column, TableColumns, age_cell

_CONTAINERS: Final = (
    Column("Containers", "The names of the containers of its template", is_wide=True),
    Column("Images", "Their images", is_wide=True),
    Column("Selector", "The labels of its pods", is_wide=True),
)
_DESIRED: Final = Column("Desired", "How many pods are wanted", kind="integer")
_CURRENT: Final = Column("Current", "How many pods there are", kind="integer")
_READY: Final = Column("Ready", "How many pods are ready", kind="integer")
_UP_TO_DATE: Final = Column("Up-to-date", "How many pods are of the newest template", kind="integer")
_AVAILABLE: Final = Column("Available", "How many pods have been ready for long enough", kind="integer")


def _container_cells(value: Json) -> tuple[str, str, str]:
    containers = v1.objects(value, "spec", "template", "spec", "containers")
    names = ",".join(v1.text(each, "name") for each in containers)
    images = ",".join(v1.text(each, "image") for each in containers)
    return names, images, selector_text(v1.mapping(value, "spec", "selector"))


def selector_text(selector: Json) -> str:
    """A label selector in the words of ``-l``."""
    parts = [f"{key}={text}" for key, text in sorted(v1.mapping(selector, "matchLabels").items())]
    for each in v1.objects(selector, "matchExpressions"):
        key, values = v1.text(each, "key"), ",".join(sorted(v1.texts(each, "values")))
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        parts.append(words.get(v1.text(each, "operator"), f"!{key}"))
    return ",".join(parts) or NONE


def _scale_cells(value: Json, now: datetime) -> Sequence[Cell]:
    return (
        v1.name(value),
        v1.number(value, "spec", "replicas"),
        v1.number(value, "status", "replicas"),
        age_cell(value, now),
    )


def _replica_set_cells(value: Json, now: datetime) -> Sequence[Cell]:
    return (
        v1.name(value),
        v1.number(value, "spec", "replicas"),
        v1.number(value, "status", "replicas"),
        v1.number(value, "status", "readyReplicas"),
        age_cell(value, now),
        *_container_cells(value),
    )


def _deployment_cells(value: Json, now: datetime) -> Sequence[Cell]:
    ready = v1.number(value, "status", "readyReplicas")
    return (
        v1.name(value),
        f"{ready}/{v1.number(value, 'spec', 'replicas')}",
        v1.number(value, "status", "updatedReplicas"),
        v1.number(value, "status", "availableReplicas"),
        age_cell(value, now),
        *_container_cells(value),
    )


def _daemon_set_cells(value: Json, now: datetime) -> Sequence[Cell]:
    nodes = v1.mapping(value, "spec", "template", "spec", "nodeSelector")
    names = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    return (
        v1.name(value),
        *(v1.number(value, "status", name) for name in (*names, "numberAvailable")),
        ",".join(f"{key}={text}" for key, text in sorted(nodes.items())) or NONE,
        age_cell(value, now),
        *_container_cells(value),
    )


def _revision_cells(value: Json, now: datetime) -> Sequence[Cell]:
    owners = (each for each in v1.objects(value, "metadata", "ownerReferences") if each.get("controller") is True)
    controller = next((_qualified(each) for each in owners), NONE)
    return v1.name(value), controller, v1.number(value, "revision"), age_cell(value, now)


def _qualified(owner: Json) -> str:
    group = v1.text(owner, "apiVersion").rpartition("/")[0]
    kind = v1.text(owner, "kind").lower()
    return f"{kind}.{group}/{v1.text(owner, 'name')}" if group else f"{kind}/{v1.text(owner, 'name')}"


def _job_cells(value: Json, now: datetime) -> Sequence[Cell]:
    succeeded, wanted = v1.number(value, "status", "succeeded"), v1.at(value, "spec", "completions")
    parallelism = v1.number(value, "spec", "parallelism")
    if wanted is not None:
        completions = f"{succeeded}/{wanted}"
    else:
        completions = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    return (
        v1.name(value),
        job_state(value),
        completions,
        _job_duration(value, now),
        age_cell(value, now),
        *(_container_cells(value)),
    )


def job_state(value: Json) -> str:
    """``Running``, or what its conditions say."""
    held = {v1.text(each, "type") for each in v1.objects(value, "status", "conditions") if each.get("status") == "True"}
    if v1.at(value, "metadata", "deletionTimestamp"):
        return "Terminating"
    states = ("Complete", "Failed", "Suspended", "SuccessCriteriaMet", "FailureTarget")
    return next((state for state in states if state in held), "Running")


def _job_duration(value: Json, now: datetime) -> str:
    since = v1.moment(value, "status", "startTime")
    if since is None:
        return ""
    failed = next((each for each in v1.objects(value, "status", "conditions") if each.get("type") == "Failed"), None)
    until = v1.moment(value, "status", "completionTime") or v1.moment(failed, "lastTransitionTime") or now
    return duration(until - since)


REPLICA_SETS: Final = TableColumns((NAME, _DESIRED, _CURRENT, _READY, AGE, *_CONTAINERS), _replica_set_cells)
DEPLOYMENTS: Final = TableColumns(
    (
        NAME,
        Column("Ready", "How many pods are ready, of those wanted"),
        _UP_TO_DATE,
        _AVAILABLE,
        AGE,
        *_CONTAINERS,
    ),
    _deployment_cells,
)
DAEMON_SETS: Final = TableColumns(
    (
        NAME,
        _DESIRED,
        _CURRENT,
        _READY,
        _UP_TO_DATE,
        _AVAILABLE,
        Column("Node Selector", "The labels of its nodes"),
        AGE,
        *_CONTAINERS,
    ),
    _daemon_set_cells,
)
SCALES: Final = TableColumns((NAME, _DESIRED, _AVAILABLE, AGE), _scale_cells)
CONTROLLER_REVISIONS: Final = TableColumns(
    (
        NAME,
        Column("Controller", "The object whose template it keeps"),
        Column("Revision", "Its number", kind="integer"),
        AGE,
    ),
    _revision_cells,
)
JOBS: Final = TableColumns(
    (
        NAME,
        Column("Status", "How far it has come"),
        Column("Completions", "How many pods have succeeded, of those wanted"),
        Column("Duration", "The time that it took, or takes so far"),
        AGE,
        *_CONTAINERS,
    ),
    _job_cells,
)
