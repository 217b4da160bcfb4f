"""Field selectors, as ``--field-selector`` and ``fieldSelector`` have them. Pure.

Source: apimachinery 1.36 ``pkg/fields/selector.go``, kubernetes 1.36 ``pkg/apis/core/v1/conversion.go``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from plugbay.errors import UsageError
from plugbay.values import dataclass

POD_FIELDS: Final = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.nominatedNodeName",
        "status.phase",
        "status.podIP",
    }
)
NODE_FIELDS: Final = frozenset({"metadata.name", "spec.unschedulable"})
NAMESPACE_FIELDS: Final = frozenset({"metadata.name", "status.phase"})
EVENT_FIELDS: Final = frozenset(
    {
        "involvedObject.apiVersion",
        "involvedObject.fieldPath",
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.namespace",
        "involvedObject.resourceVersion",
        "involvedObject.uid",
        "metadata.name",
        "metadata.namespace",
        "reason",
        "type",
    }
)
NEW_EVENT_FIELDS: Final = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "reason",
        "regarding.fieldPath",
        "regarding.kind",
        "regarding.name",
        "regarding.namespace",
        "regarding.uid",
        "reportingController",
        "type",
    }
)
_TERM: Final = re.compile(r"(?P<field>[^=!]+?)(?P<operator>!=|==|=)(?P<value>(?:[^\\,=]|\\[\\,=])*)", re.DOTALL)
_PIECE: Final = re.compile(r"\\.|[^\\,]+|[\\,]", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Term:
    path: tuple[str, ...]
    value: str
    is_negated: bool


class FieldSelector:
    """The values that fields of an object must have, or must not have.

    Raises:
        UsageError: the text is not a selector, or names a field that is not ``supported``.
    """

    def __init__(self, text: str, supported: frozenset[str]) -> None:
        self._terms = tuple(_term(each, text, supported) for each in _split(text) if each)

    def __bool__(self) -> bool:
        return bool(self._terms)

    def holds(self, item: Mapping[str, object]) -> bool:
        """Whether a v1 object is selected; a field that it does not have is empty."""
        return all((_value(item, term.path) == term.value) is not term.is_negated for term in self._terms)


def _split(text: str) -> list[str]:
    """The terms, which stand between commas without a backslash; in time that grows with the text and no faster."""
    terms: list[list[str]] = [[]]
    for piece in _PIECE.findall(text):
        if piece == ",":
            terms.append([])
        else:
            terms[-1].append(piece)
    return ["".join(term) for term in terms]


def _term(term: str, text: str, supported: frozenset[str]) -> _Term:
    found = _TERM.fullmatch(term)
    if found is None:
        raise UsageError(f"invalid field selector {text[:80]!r}: cannot understand {term[:80]!r}")
    if found["field"] not in supported:
        known = ", ".join(sorted(supported))
        raise UsageError(f"field label not supported: {found['field'][:80]}; supported are {known}")
    value = _ESCAPED.sub(r"\1", found["value"])
    return _Term(tuple(found["field"].split(".")), value, is_negated=found["operator"] == "!=")


def _value(item: object, path: tuple[str, ...]) -> object:
    for name in path:
        item = item.get(name, "") if isinstance(item, dict) else ""
    return item
