"""The fields that a value has, and those that differ between two values. Pure.

Source: structured-merge-diff v6 ``typed/tofieldset.go``, ``typed/compare.go``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field

from plugbay.node.api.applying import elements
from plugbay.node.api.applying.elements import Element, Path
from plugbay.node.api.applying.sets import EMPTY, FieldSet
from plugbay.node.api.applying.typed.types import FieldType, ListMerge, ListType, MapType
from plugbay.node.api.applying.typed.walking import (
    ABSENT,
    ValueForm,
    as_list,
    as_map,
    form_of,
    forms_of,
    has_element,
    is_same,
    item_element,
)
from plugbay.values import dataclass


def fields_of(value: object, kind: FieldType) -> FieldSet:
    """All fields that a value mentions: what a client that applies it will own. Items without their keys are none."""
    found: list[Path] = []
    _find_fields(value, kind, (), found)
    return FieldSet.of(found)


def _find_fields(value: object, kind: FieldType, path: Path, found: list[Path]) -> None:
    match form_of(value, kind):
        case ValueForm.SCALAR:
            found.append(path)
        case ValueForm.LIST:
            assert kind.list is not None
            if kind.list.merge is ListMerge.ATOMIC:
                found.append(path)
            elif (items := as_list(value)) is not None:
                _find_in_list(items, kind.list, path, found)
        case ValueForm.MAP:
            assert kind.map is not None
            if kind.map.is_atomic:
                found.append(path)
            elif (fields := as_map(value)) is not None:
                for name, each in fields.items():
                    below = (*path, elements.field(name))
                    if (inner := kind.map.at(name)) is not None:
                        _find_fields(each, inner, below, found)
                    if each is None or each == {} or not kind.map.is_field(name):
                        found.append(below)


def _find_in_list(items: list[object], kind: ListType, path: Path, found: list[Path]) -> None:
    steps = [item_element(item, kind, path) if has_element(item, kind) else None for item in items]
    counts = Counter(steps)
    for step, item in zip(steps, items, strict=True):
        if step is None:
            continue
        if counts[step] == 1 and kind.item is not None:
            _find_fields(item, kind.item, (*path, step), found)
        found.append((*path, step))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences of two values: no field is in two of the sets."""

    removed: FieldSet = EMPTY
    modified: FieldSet = EMPTY
    added: FieldSet = EMPTY


@dataclass(slots=True)
class _Differences:
    removed: list[Path] = field(default_factory=list)
    modified: list[Path] = field(default_factory=list)
    added: list[Path] = field(default_factory=list)


def compare(before: object, after: object, kind: FieldType) -> Comparison:
    """The fields that differ. `ABSENT` and null stand for an object without any.

    Raises:
        MistypedValue: a value is not of that type.
    """
    found = _Differences()
    _compare(before, after, kind, (), found)
    return Comparison(FieldSet.of(found.removed), FieldSet.of(found.modified), FieldSet.of(found.added))


def _compare(before: object, after: object, kind: FieldType, path: Path, found: _Differences) -> None:
    is_leaf = False
    for form in forms_of(before, after, kind):
        is_leaf = _compare_as(form, before, after, kind, path, found)
    if is_leaf:
        return
    if before is ABSENT:
        found.added.append(path)
    elif after is ABSENT:
        found.removed.append(path)


def _compare_as(
    form: ValueForm, before: object, after: object, kind: FieldType, path: Path, found: _Differences
) -> bool:
    """Whether the field is one that is compared whole; else what is in it has been compared."""
    if form is ValueForm.MAP and kind.map is not None and not kind.map.is_atomic:
        fields, others = as_map(before) or {}, as_map(after) or {}
        if fields or others:
            _compare_maps(fields, others, kind.map, path, found)
            return False
    elif form is ValueForm.LIST and kind.list is not None and kind.list.merge is not ListMerge.ATOMIC:
        items, wanted = as_list(before) or [], as_list(after) or []
        if items or wanted:
            _compare_lists(items, wanted, kind.list, path, found)
            return False
    # A value that is empty on both sides is compared whole, so that null and nothing differ.
    if before is ABSENT:
        found.added.append(path)
    elif after is ABSENT:
        found.removed.append(path)
    elif not is_same(before, after):
        found.modified.append(path)
    return True


def _compare_maps(
    before: Mapping[str, object], after: Mapping[str, object], kind: MapType, path: Path, found: _Differences
) -> None:
    for name in dict.fromkeys([*before, *after]):
        if (inner := kind.at(name)) is not None:
            step = elements.field(name)
            _compare(before.get(name, ABSENT), after.get(name, ABSENT), inner, (*path, step), found)


def _compare_lists(before: list[object], after: list[object], kind: ListType, path: Path, found: _Differences) -> None:
    if kind.item is None:
        return
    ours, theirs = _by_element(before, kind, path), _by_element(after, kind, path)
    for step in dict.fromkeys([*ours, *theirs]):
        below = (*path, step)
        match ours.get(step, []), theirs.get(step, []):
            case ([] | [_]) as one, ([] | [_]) as other:
                _compare(one[0] if one else ABSENT, other[0] if other else ABSENT, kind.item, below, found)
            case [_, _, *_] as one, [_, _, *_] as other:
                if not is_same(one, other):
                    found.modified.append(below)
            case [_, _, *_], other:
                # Items that were not told apart stay with their managers; the one that remains is new.
                if other:
                    _compare(ABSENT, other[0], kind.item, below, found)
                found.removed.append(below)
            case one, _:
                if one:
                    _compare(one[0], ABSENT, kind.item, below, found)
                found.added.append(below)


def _by_element(items: list[object], kind: ListType, path: Path) -> dict[Element, list[object]]:
    found: dict[Element, list[object]] = {}
    for item in items:
        found.setdefault(item_element(item, kind, path), []).append(item)
    return found
