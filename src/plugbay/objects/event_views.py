"""Events as the core group has them, and as ``events.k8s.io`` does: two views of the same. Pure.

Source: Kubernetes 1.36 ``pkg/apis/events/v1/conversion.go``, ``pkg/apis/core/validation/events.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.model.pods import DEFAULT_NAMESPACE
from plugbay.objects.problems import FieldProblem, invalid, required
from plugbay.printers import v1

_NAMES: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""The fields of ``events.k8s.io`` that have another name in the core group."""
_CORE_NAMES: Final = {core: new for new, core in _NAMES.items()}
_MOST_NOTE: Final = 1024


def core_event(value: Json) -> Json:
    """An event of either group as one of the core group."""
    if value.get("apiVersion") == "v1":
        return value
    return {_NAMES.get(name, name): each for name, each in value.items()} | {"apiVersion": "v1"}


def new_event(value: Json) -> Json:
    """An event of either group as one of ``events.k8s.io``."""
    if value.get("apiVersion") != "v1":
        return value
    renamed = {_CORE_NAMES.get(name, name): each for name, each in value.items()}
    if not renamed.get("reportingController"):
        renamed["reportingController"] = v1.text(value, "source", "component")
    return renamed | {"apiVersion": "events.k8s.io/v1"}


def core_event_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    about, own = v1.text(value, "involvedObject", "namespace"), v1.namespace(value)
    if (about or DEFAULT_NAMESPACE) != own:
        yield invalid("involvedObject.namespace", about, "does not match event.namespace")


def new_event_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    for name in ("reportingController", "reportingInstance", "action", "reason"):
        if not v1.text(value, name):
            yield required(name)
    if not value.get("eventTime"):
        yield required("eventTime")
    if v1.text(value, "type") not in ("Normal", "Warning"):
        yield invalid("type", v1.text(value, "type"), "has invalid value")
    if len(v1.text(value, "note").encode()) > _MOST_NOTE:
        yield invalid("note", "", "can have at most 1024 characters")
