"""Sets of fields that managers own, adapted to a type that has changed since: from merged to atomic. Pure.

Source: structured-merge-diff v6 ``typed/reconcile_schema.go``.
"""

from __future__ import annotations

from plugbay.node.api.applying.elements import Element, Path, name_of
from plugbay.node.api.applying.sets import EMPTY, FieldSet
from plugbay.node.api.applying.typed.types import FieldType, ListMerge, Others
from plugbay.node.api.applying.typed.walking import ValueForm, form_of


def reconciled(fields: FieldSet, kind: FieldType) -> FieldSet:
    """``fields`` with one field in place of all those in a value that is owned whole by now."""
    atomic: list[Path] = []
    _find_atomic(fields, kind, (), False, atomic)
    whole = FieldSet.of(atomic)
    return fields.without_below(whole) | whole if whole else fields


def _find_atomic(fields: FieldSet, kind: FieldType, path: Path, is_whole: bool, found: list[Path]) -> None:
    match form_of(None, kind):
        case ValueForm.MAP:
            assert kind.map is not None
            if kind.map.others is Others.DEDUCED and not kind.map.fields:
                return
            if kind.map.is_atomic and not is_whole:
                if fields:
                    found.append(path)
                return
        case ValueForm.LIST:
            assert kind.list is not None
            if kind.list.merge is ListMerge.ATOMIC and not is_whole:
                found.append(path)
                return
        case ValueForm.SCALAR:
            return
    for step in fields.members | fields.children.keys():
        below = fields.children.get(step)
        inner = _inner(kind, step)
        if inner is not None:
            _find_atomic(below or EMPTY, inner, (*path, step), step in fields.members and below is None, found)


def _inner(kind: FieldType, step: Element) -> FieldType | None:
    if kind.map:
        return kind.map.at(name_of(step))
    return kind.list.item if kind.list else None
