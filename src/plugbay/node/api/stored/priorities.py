"""Priority classes. Pure.

Source: Kubernetes 1.36 ``pkg/apis/scheduling/validation/validation.go``, ``pkg/apis/scheduling/helpers.go``,
``pkg/printers/internalversion/printers.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.resources import StoredKind
from plugbay.node.api.stored.rows import row
from plugbay.objects.problems import FieldProblem, forbidden, invalid, not_supported
from plugbay.pods.scheduling.defaults import BUILT_IN_CLASSES
from plugbay.printers import v1
from plugbay.printers.cells import columns, text
from plugbay.printers.tables import Column

_USER_MOST: Final = 1_000_000_000
_SYSTEM: Final = "system-"
_POLICIES: Final = ("Never", "PreemptLowerPriority")


def _filled_in(wanted: Json, before: Json | None) -> Json:
    return {"value": 0, "preemptionPolicy": "PreemptLowerPriority"} | wanted


def _problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    name, number = v1.name(value), v1.number(value, "value")
    built_in = BUILT_IN_CLASSES.get(name)
    is_built_in = built_in is not None and built_in.value == number and not v1.at(value, "globalDefault")
    if name.startswith(_SYSTEM) and not is_built_in:
        yield forbidden("metadata.name", "priority class names with 'system-' prefix are reserved for system use only")
    if number > _USER_MOST and not name.startswith(_SYSTEM):
        yield forbidden("value", f"maximum allowed value of a user defined priority is {_USER_MOST}")
    if v1.text(value, "preemptionPolicy") not in _POLICIES:
        yield not_supported("preemptionPolicy", v1.text(value, "preemptionPolicy"), _POLICIES)
    if before is not None:
        for field in ("value", "preemptionPolicy"):
            if value.get(field) != before.get(field):
                yield invalid(field, value.get(field), "field is immutable")


PRIORITY_CLASSES: Final = row(
    "scheduling.k8s.io/v1",
    "priorityclasses",
    "PriorityClass",
    stored=StoredKind(prepare=_filled_in, check=_problems, has_generation=True),
    is_namespaced=False,
    short_names=("pc",),
    columns=columns(
        (Column("Value", "The priority", kind="integer"), text("value")),
        (Column("Global-Default", "Whether pods without a class have it"), text("globalDefault", missing="false")),
        (Column("PreemptionPolicy", "Whether its pods preempt others", is_wide=True), text("preemptionPolicy")),
    ),
)
