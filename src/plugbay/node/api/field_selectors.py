"""Field selectors, as ``--field-selector`` and ``fieldSelector`` have them. Pure.

Source: apimachinery 1.36 ``pkg/fields/selector.go``, kubernetes 1.36 ``pkg/apis/core/v1/conversion.go``, and
``ToSelectableFields`` of each kind in ``pkg/registry``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from plugbay.errors import UsageError
from plugbay.values import dataclass

_TERM: Final = re.compile(r"(?P<field>[^=!]+?)(?P<operator>!=|==|=)(?P<value>(?:[^\\,=]|\\[\\,=])*)", re.DOTALL)
_PIECE: Final = re.compile(r"\\.|[^\\,]+|[\\,]", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SelectableField:
    """A field that selectors may name, as the text that they compare with.

    Attributes:
        places: its paths in an object; the first one that has a value counts.
        absent: its text in an object that does not have it.
    """

    places: tuple[tuple[str, ...], ...]
    absent: str = ""

    def of(self, item: Mapping[str, object]) -> str:
        """The text of the field in a v1 object, as Go prints a value."""
        return next((text for place in self.places if (text := _text(_value(item, place)))), self.absent)


SelectableFields: TypeAlias = Mapping[str, SelectableField]
NO_FIELDS: Final[SelectableFields] = {}


def selectable(*names: str, absent: str = "") -> dict[str, SelectableField]:
    """Fields that selectors name by their paths."""
    return {name: SelectableField((tuple(name.split(".")),), absent) for name in names}


POD_FIELDS: Final = selectable(
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.nominatedNodeName",
    "status.phase",
    "status.podIP",
) | selectable("spec.hostNetwork", absent="false")
NODE_FIELDS: Final = selectable("metadata.name") | selectable("spec.unschedulable", absent="false")
EVENT_FIELDS: Final = selectable(
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
    "reportingComponent",
    "type",
) | {"source": SelectableField((("source", "component"), ("reportingComponent",)))}
NEW_EVENT_FIELDS: Final = selectable(
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
)


@dataclass(frozen=True, slots=True)
class _Term:
    field: SelectableField
    value: str
    is_negated: bool


class FieldSelector:
    """The values that fields of an object must have, or must not have.

    Raises:
        UsageError: the text is not a selector, or names a field that is not ``supported``.
    """

    def __init__(self, text: str, supported: SelectableFields) -> None:
        self._terms = tuple(_term(each, text, supported) for each in _split(text) if each)

    def __bool__(self) -> bool:
        return bool(self._terms)

    def holds(self, item: Mapping[str, object]) -> bool:
        """Whether a v1 object is selected."""
        return all((term.field.of(item) == term.value) is not term.is_negated for term in self._terms)


def _split(text: str) -> list[str]:
    """The terms, which stand between commas without a backslash; in time that grows with the text and no faster."""
    terms: list[list[str]] = [[]]
    for piece in _PIECE.findall(text):
        if piece == ",":
            terms.append([])
        else:
            terms[-1].append(piece)
    return ["".join(term) for term in terms]


def _term(term: str, text: str, supported: SelectableFields) -> _Term:
    found = _TERM.fullmatch(term)
    if found is None:
        raise UsageError(f"invalid field selector {text[:80]!r}: cannot understand {term[:80]!r}")
    if found["field"] not in supported:
        known = ", ".join(sorted(supported))
        raise UsageError(f"field label not supported: {found['field'][:80]}; supported are {known}")
    value = _ESCAPED.sub(r"\1", found["value"])
    return _Term(supported[found["field"]], value, is_negated=found["operator"] == "!=")


def _value(item: object, path: tuple[str, ...]) -> object:
    for name in path:
        item = item.get(name) if isinstance(item, dict) else None
    return item


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case _:
            return json.dumps(value)
