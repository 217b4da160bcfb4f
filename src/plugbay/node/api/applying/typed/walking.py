"""The shared parts of walks through typed values: forms of values, and the steps to the items of lists. Pure.

Source: structured-merge-diff v6 ``typed/helpers.go``, ``value/value.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final

from plugbay.node.api.applying import elements
from plugbay.node.api.applying.elements import Element, Path, path_text
from plugbay.node.api.applying.typed.types import FieldType, ListMerge, ListType


class Absent(Enum):
    """The value of a field that is not there, which null is not."""

    ABSENT = auto()


ABSENT: Final = Absent.ABSENT


class ValueForm(Enum):
    """The form that a value is taken for."""

    MAP = auto()
    SCALAR = auto()
    LIST = auto()


class MistypedValue(ValueError):
    """A value that its type does not allow; its text says where and why."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path_text(path)}: {problem}" if path else problem)


def form_of(value: object, kind: FieldType) -> ValueForm:
    """The first that the type allows if the value is nothing, or of a form that the type does not allow."""
    match value:
        case bool() | int() | float() | str() if kind.scalar:
            return ValueForm.SCALAR
        case list() if kind.list:
            return ValueForm.LIST
        case dict() if kind.map:
            return ValueForm.MAP
    if kind.map:
        return ValueForm.MAP
    return ValueForm.SCALAR if kind.scalar else ValueForm.LIST


def forms_of(one: object, other: object, kind: FieldType) -> tuple[ValueForm, ...]:
    """The forms in which two values of a field, one perhaps absent, are to be looked at; the last one counts."""
    if other is ABSENT:
        return (form_of(one, kind),)
    wanted = form_of(other, kind)
    if one is ABSENT or (before := form_of(one, kind)) is wanted:
        return (wanted,)
    return before, wanted


def as_map(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, dict) else None


def as_list(value: object) -> list[Any] | None:
    return value if isinstance(value, list) else None


def is_same(one: object, other: object) -> bool:
    """Whether two JSON values are equal; a boolean is not a number."""
    match one, other:
        case (bool(), _) | (_, bool()):
            return one is other
        case dict(), dict():
            return one.keys() == other.keys() and all(is_same(each, other[name]) for name, each in one.items())
        case list(), list():
            return len(one) == len(other) and all(map(is_same, one, other))
    return one == other


def has_element(item: object, kind: ListType) -> bool:
    """Whether there is a step to an item of a list; not if all that tells it apart has been taken out."""
    if kind.merge is ListMerge.SET:
        return item is not None and not isinstance(item, dict | list)
    return isinstance(item, dict) and any(name in item or name in kind.defaults for name in kind.keys)


def item_element(item: object, kind: ListType, path: Path) -> Element:
    """The step to an item of a list that is not atomic.

    Raises:
        MistypedValue: nothing tells it apart from others.
    """
    if kind.merge is ListMerge.SET:
        if item is None or isinstance(item, dict | list):
            what = "null" if item is None else "a mapping" if isinstance(item, dict) else "a list"
            raise MistypedValue(path, f"a list of plain values has an item that is {what}")
        return elements.value(item)
    if not isinstance(item, dict):
        raise MistypedValue(path, "an item of a list with keys must be a mapping")
    keys = {name: item.get(name, kind.defaults.get(name, ABSENT)) for name in kind.keys}
    found = {name: value for name, value in keys.items() if value is not ABSENT}
    if not found:
        raise MistypedValue(path, f"an item has none of the fields that tell it apart: {', '.join(kind.keys)}")
    return elements.key(found)
