"""Limits, quotas, classes and disruption budgets. Pure.

Source: Kubernetes 1.36 ``pkg/apis/policy/validation``, ``pkg/apis/node/validation``,
``pkg/printers/internalversion/printers.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.stored.inactive.rows import inactive
from plugbay.objects.problems import FieldProblem, invalid, required
from plugbay.printers import v1
from plugbay.printers.cells import columns, created, text
from plugbay.printers.tables import Column


def _amounts(quota: Json, *, limits: bool) -> str:
    hard, used = v1.mapping(quota, "spec", "hard"), v1.mapping(quota, "status", "used")
    names = sorted(name for name in hard if name.startswith("limits.") is limits)
    return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)


def _runtime_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    if not v1.text(value, "handler"):
        yield required("handler")
    if before is not None and value.get("handler") != before.get("handler"):
        yield invalid("handler", value.get("handler"), "field is immutable")


def _budget_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    spec = v1.mapping(value, "spec")
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")


POLICIES: Final = (
    inactive(
        "v1",
        "limitranges",
        "LimitRange",
        short_names=("limits",),
        columns=columns((Column("Created At", "When it was made"), created), has_age=False),
    ),
    inactive(
        "v1",
        "resourcequotas",
        "ResourceQuota",
        short_names=("quota",),
        columns=columns(
            (Column("Request", "What is requested, of what may be"), lambda value: _amounts(value, limits=False)),
            (Column("Limit", "What is limited, of what may be"), lambda value: _amounts(value, limits=True)),
        ),
        has_status=True,
    ),
    inactive(
        "node.k8s.io/v1",
        "runtimeclasses",
        "RuntimeClass",
        is_namespaced=False,
        columns=columns((Column("Handler", "The handler of the runtime"), text("handler"))),
        check=_runtime_problems,
    ),
    inactive(
        "policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        short_names=("pdb",),
        columns=columns(
            (Column("Min Available", "How many pods must stay"), text("spec", "minAvailable", missing="N/A")),
            (Column("Max Unavailable", "How many pods may go"), text("spec", "maxUnavailable", missing="N/A")),
            (
                Column("Allowed Disruptions", "How many pods may go now", kind="integer"),
                lambda value: v1.number(value, "status", "disruptionsAllowed"),
            ),
        ),
        has_status=True,
        has_generation=True,
        check=_budget_problems,
    ),
)
