"""Label selectors as v1 objects: ``matchLabels`` and ``matchExpressions``.

Source: Kubernetes 1.36 ``apimachinery/pkg/apis/meta/v1/helpers.go``, ``validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugbay.manifest.report import ManifestReport
from plugbay.manifest.resource_checks import invalid
from plugbay.manifest.shapes import Field, ListOf, MapOf, Support, Table, Text
from plugbay.model import dns
from plugbay.model.field_path import FieldPath
from plugbay.model.selectors import Operator, Requirement, Selector

_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_WITH_VALUES: Final = ("In", "NotIn")


def _used(shape: Text | ListOf | MapOf) -> Field:
    return Field(Support.USED, shape)


_EXPRESSION: Final = Table(
    {"key": _used(Text()), "operator": _used(Text(tuple(_OPERATORS))), "values": _used(ListOf(Text()))}
)
LABEL_SELECTOR: Final = Table({"matchLabels": _used(MapOf(Text())), "matchExpressions": _used(ListOf(_EXPRESSION))})
"""Its fields."""


def selector_of(v1: Mapping[str, object]) -> Selector:
    """The selector that a v1 LabelSelector means; one without conditions selects everything."""
    labels, expressions = v1.get("matchLabels"), v1.get("matchExpressions")
    exact = labels.items() if isinstance(labels, dict) else ()
    requirements = [Requirement(key, Operator.IN, frozenset({value})) for key, value in exact]
    for each in expressions if isinstance(expressions, list) else ():
        values = frozenset(each.get("values") or ())
        requirements.append(Requirement(each.get("key", ""), _OPERATORS[each["operator"]], values))
    return tuple(requirements)


def check_label_selector(v1: Mapping[str, object], path: FieldPath, report: ManifestReport) -> None:
    """Report everything an API server would refuse in a selector whose shape is right."""
    labels, expressions = v1.get("matchLabels"), v1.get("matchExpressions")
    for key, value in labels.items() if isinstance(labels, dict) else ():
        _check_key(key, (*path, "matchLabels"), report)
        if value and not dns.is_name(value):
            report.problem((*path, "matchLabels", key), invalid(value, "must be a valid label value"))
    for index, each in enumerate(expressions if isinstance(expressions, list) else ()):
        here = (*path, "matchExpressions", index)
        _check_key(each.get("key", ""), (*here, "key"), report)
        operator, values = each.get("operator"), each.get("values")
        if operator is None:
            report.problem((*here, "operator"), "Required value")
        elif operator not in _OPERATORS:
            report.problem((*here, "operator"), invalid(operator, "not a valid selector operator"))
        elif operator in _WITH_VALUES and not values:
            report.problem((*here, "values"), "Required value: must be specified when `operator` is 'In' or 'NotIn'")
        elif operator not in _WITH_VALUES and values:
            problem = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            report.problem((*here, "values"), problem)


def _check_key(key: str, path: FieldPath, report: ManifestReport) -> None:
    prefix, slash, name = key.rpartition("/")
    if not dns.is_name(name) or (slash and not dns.is_subdomain(prefix)):
        report.problem(path, invalid(key, "must be a valid label name"))
