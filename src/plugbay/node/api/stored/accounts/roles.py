"""Roles, and what binds them to accounts. Pure.

Source: Kubernetes 1.36 ``pkg/apis/rbac/validation``, ``pkg/printers/internalversion/printers.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.resources import ApiResource, StoredKind
from plugbay.node.api.stored.rows import row
from plugbay.objects.metadata import path_segment_rule
from plugbay.objects.problems import FieldProblem, forbidden, invalid, not_supported, required
from plugbay.printers import v1
from plugbay.printers.cells import CellOf, columns, created
from plugbay.printers.tables import Cell, Column

_VERSION: Final = "rbac.authorization.k8s.io/v1"


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
    if v1.mapping(value, "aggregationRule"):
        yield forbidden("aggregationRule", "this node does not join the rules of several roles")
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


def _role(plural: str, kind: str, *, is_namespaced: bool) -> ApiResource:
    stored = StoredKind(check=_role_problems, name_rule=path_segment_rule, creates_on_update=True)
    return row(_VERSION, plural, kind, stored=stored, is_namespaced=is_namespaced, columns=_ROLES)


def _role_binding(plural: str, kind: str, *, is_namespaced: bool) -> ApiResource:
    stored = StoredKind(prepare=_binding, check=_binding_problems, name_rule=path_segment_rule, creates_on_update=True)
    return row(_VERSION, plural, kind, stored=stored, is_namespaced=is_namespaced, columns=_BINDINGS)


RBAC_KINDS: Final = (
    _role("roles", "Role", is_namespaced=True),
    _role_binding("rolebindings", "RoleBinding", is_namespaced=True),
    _role("clusterroles", "ClusterRole", is_namespaced=False),
    _role_binding("clusterrolebindings", "ClusterRoleBinding", is_namespaced=False),
)
