"""Service accounts and leases. Pure.

Source: Kubernetes 1.36 ``pkg/registry/core/serviceaccount/strategy.go``, ``pkg/apis/coordination/validation``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.resources import StoredKind, Subresource
from plugbay.node.api.stored.rows import row
from plugbay.objects.problems import FieldProblem, invalid
from plugbay.printers import stored, v1


def _lease_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    spec = v1.mapping(value, "spec")
    if "leaseDurationSeconds" in spec and v1.number(spec, "leaseDurationSeconds") <= 0:
        yield invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    if v1.number(spec, "leaseTransitions") < 0:
        yield invalid("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0")


SERVICE_ACCOUNTS: Final = row(
    "v1",
    "serviceaccounts",
    "ServiceAccount",
    stored=StoredKind(),
    short_names=("sa",),
    columns=stored.SERVICE_ACCOUNTS,
    subresources=(Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),),
)
LEASES: Final = row(
    "coordination.k8s.io/v1",
    "leases",
    "Lease",
    stored=StoredKind(check=_lease_problems, creates_on_update=True),
    columns=stored.LEASES,
)
