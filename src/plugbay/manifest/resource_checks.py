"""The API server's checks of a container's requests and limits.

Source: Kubernetes 1.36 ``pkg/apis/core/validation/validation.go``, ``ValidateContainerResourceRequirements``.
"""

from __future__ import annotations

import re
from typing import Final

from plugbay.manifest.report import ManifestReport
from plugbay.model.dns import NAME
from plugbay.model.field_path import FieldPath
from plugbay.model.ids import is_extended_resource
from plugbay.model.pods import Container
from plugbay.model.quantity import Quantity

_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE_PAGES: Final = "hugepages-"
_NATIVE: Final = re.compile(rf"(?:[a-z0-9][-.a-z0-9]*\.)?kubernetes\.io/{NAME}")


def invalid(value: object, rule: str) -> str:
    """The API server's ``Invalid value`` sentence."""
    match value:
        case bool():
            shown = str(value).lower()
        case int():
            shown = str(value)
        case _:
            shown = f'"{value}"'
    return f"Invalid value: {shown}: {rule}"


def check_resources(container: Container, path: FieldPath, report: ManifestReport) -> None:
    """Report requests and limits an API server would refuse."""
    limits, requests = (*path, "limits"), (*path, "requests")
    for name, amount in container.limits.items():
        _check_amount(name, amount, (*limits, name), report)
    for name, amount in container.requests.items():
        limit = container.limits.get(name)
        if limit is amount:
            continue  # filled in from the limit, which has been looked at
        where = (*requests, name)
        _check_amount(name, amount, where, report)
        if not (report.is_sound(where) and report.is_sound((*limits, name))):
            continue
        if limit is not None:
            _compare(name, amount, limit, where, report)
        elif not _may_overcommit(name):
            report.problem(where, "Limit must be set for non overcommitable resources")


def _check_amount(name: str, amount: Quantity, path: FieldPath, report: ManifestReport) -> None:
    problem = _name_problem(name)
    if problem:
        report.problem(path, invalid(name, problem))
    elif amount < _ZERO:
        report.problem(path, invalid(amount, "must be greater than or equal to 0"))
    elif is_extended_resource(name) and not amount.is_whole:
        report.problem(path, invalid(amount, "must be an integer"))


def _name_problem(name: str) -> str | None:
    if "/" not in name:
        is_standard = name in _STANDARD or name.startswith(_HUGE_PAGES)
        return None if is_standard else "must be a standard resource type or fully qualified"
    if is_extended_resource(name) or _NATIVE.fullmatch(name):
        return None
    return "doesn't follow extended resource name standard"


def _compare(name: str, request: Quantity, limit: Quantity, path: FieldPath, report: ManifestReport) -> None:
    if not _may_overcommit(name) and request != limit:
        report.problem(path, invalid(request, f"must be equal to {name} limit of {limit}"))
    elif request > limit:
        report.problem(path, invalid(request, f"must be less than or equal to {name} limit of {limit}"))


def _may_overcommit(name: str) -> bool:
    return not is_extended_resource(name) and not name.startswith(_HUGE_PAGES)


_ZERO: Final = Quantity.parse("0")
