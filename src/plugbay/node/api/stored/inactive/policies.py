"""Limits, quotas, classes, disruption budgets and roles. Pure.

Source: Kubernetes 1.36 ``pkg/apis/policy/validation``, ``pkg/apis/scheduling/validation``,
``pkg/apis/node/validation``, ``pkg/apis/rbac/validation``, ``pkg/printers/internalversion/printers.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.stored.inactive.rows import inactive
from plugbay.objects.metadata import path_segment_rule
from plugbay.objects.problems import FieldProblem, forbidden, invalid, not_supported, required
from plugbay.printers import v1
from plugbay.printers.cells import CellOf, columns, created, text
from plugbay.printers.tables import Cell, Column

_USER_MOST: Final = 1_000_000_000
_SYSTEM: Final = "system-"


def _amounts(quota: Json, *, limits: bool) -> str:
    hard, used = v1.mapping(quota, "spec", "hard"), v1.mapping(quota, "status", "used")
    names = sorted(name for name in hard if name.startswith("limits.") is limits)
    return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)


def _priority(wanted: Json, before: Json | None) -> Json:
    return {"value": 0, "preemptionPolicy": "PreemptLowerPriority"} | wanted


def _priority_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    name, number = v1.name(value), v1.number(value, "value")
    if name.startswith(_SYSTEM) and before is None:
        yield forbidden("metadata.name", "priority class names with 'system-' prefix are reserved for system use only")
    if number > _USER_MOST and not name.startswith(_SYSTEM):
        yield forbidden("value", f"maximum allowed value of a user defined priority is {_USER_MOST}")
    if v1.text(value, "preemptionPolicy") not in ("Never", "PreemptLowerPriority"):
        yield not_supported("preemptionPolicy", v1.text(value, "preemptionPolicy"), ["Never", "PreemptLowerPriority"])
    if before is not None:
        for field in ("value", "preemptionPolicy"):
            if value.get(field) != before.get(field):
                yield invalid(field, value.get(field), "field is immutable")


def _runtime_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    if not v1.text(value, "handler"):
        yield required("handler")
    if before is not None and value.get("handler") != before.get("handler"):
        yield invalid("handler", value.get("handler"), "field is immutable")


def _budget_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    spec = v1.mapping(value, "spec")
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")


def _binding(wanted: Json, before: Json | None) -> Json:
    group = "rbac.authorization.k8s.io"
    subjects: list[Json] = []
    for subject in v1.objects(wanted, "subjects"):
        is_account = subject.get("kind") == "ServiceAccount"
        subjects.append(subject if is_account else {"apiGroup": group} | subject)
    role = {"apiGroup": group} | v1.mapping(wanted, "roleRef")
    return wanted | {"roleRef": role} | ({"subjects": subjects} if subjects else {})


def _binding_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    role = v1.mapping(value, "roleRef")
    if v1.text(role, "kind") not in ("ClusterRole", "Role"):
        yield not_supported("roleRef.kind", v1.text(role, "kind"), ["ClusterRole", "Role"])
    if not v1.text(role, "name"):
        yield required("roleRef.name")
    if before is not None and role != v1.mapping(before, "roleRef"):
        yield invalid("roleRef", role, "cannot change roleRef")
    for index, subject in enumerate(v1.objects(value, "subjects")):
        where = f"subjects[{index}]"
        if v1.text(subject, "kind") not in ("Group", "ServiceAccount", "User"):
            yield not_supported(f"{where}.kind", v1.text(subject, "kind"), ["Group", "ServiceAccount", "User"])
        if not v1.text(subject, "name"):
            yield required(f"{where}.name")
        if subject.get("kind") == "ServiceAccount" and not v1.text(subject, "namespace"):
            yield required(f"{where}.namespace")


def _role_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    for index, rule in enumerate(v1.objects(value, "rules")):
        if not v1.texts(rule, "verbs"):
            yield required(f"rules[{index}].verbs", "verbs must contain at least one value")


def _role_of(binding: Json) -> Cell:
    return f"{v1.text(binding, 'roleRef', 'kind')}/{v1.text(binding, 'roleRef', 'name')}"


def _subjects(kind: str) -> CellOf:
    def cell(binding: Json) -> Cell:
        found = [each for each in v1.objects(binding, "subjects") if each.get("kind") == kind]
        shown = [
            f"{each['namespace']}/{each['name']}" if "namespace" in each else v1.text(each, "name") for each in found
        ]
        return ", ".join(shown)

    return cell


_ROLES: Final = columns((Column("Created At", "When it was made"), created), has_age=False)
_BINDINGS: Final = columns(
    (Column("Role", "The role that is given"), _role_of),
    (Column("Users", "The users that have it", is_wide=True), _subjects("User")),
    (Column("Groups", "The groups that have it", is_wide=True), _subjects("Group")),
    (Column("ServiceAccounts", "The accounts that have it", is_wide=True), _subjects("ServiceAccount")),
)

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
        "scheduling.k8s.io/v1",
        "priorityclasses",
        "PriorityClass",
        is_namespaced=False,
        short_names=("pc",),
        columns=columns(
            (Column("Value", "The priority", kind="integer"), text("value")),
            (Column("Global-Default", "Whether pods without a class have it"), text("globalDefault", missing="false")),
            (Column("PreemptionPolicy", "Whether its pods preempt others", is_wide=True), text("preemptionPolicy")),
        ),
        has_generation=True,
        prepare=_priority,
        check=_priority_problems,
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
    inactive(
        "rbac.authorization.k8s.io/v1",
        "roles",
        "Role",
        columns=_ROLES,
        name_rule=path_segment_rule,
        check=_role_problems,
        creates_on_update=True,
    ),
    inactive(
        "rbac.authorization.k8s.io/v1",
        "rolebindings",
        "RoleBinding",
        columns=_BINDINGS,
        name_rule=path_segment_rule,
        prepare=_binding,
        check=_binding_problems,
        creates_on_update=True,
    ),
    inactive(
        "rbac.authorization.k8s.io/v1",
        "clusterroles",
        "ClusterRole",
        is_namespaced=False,
        columns=_ROLES,
        name_rule=path_segment_rule,
        check=_role_problems,
        creates_on_update=True,
    ),
    inactive(
        "rbac.authorization.k8s.io/v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
        is_namespaced=False,
        columns=_BINDINGS,
        name_rule=path_segment_rule,
        prepare=_binding,
        check=_binding_problems,
        creates_on_update=True,
    ),
)
