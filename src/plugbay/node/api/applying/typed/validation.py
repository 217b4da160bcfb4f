"""Checks that a value is of a type, so far that it can be merged. Pure.

Source: structured-merge-diff v6 ``typed/validate.go``.
"""

from __future__ import annotations

from collections.abc import Iterator

from plugbay.node.api.applying.elements import Element, Path, element_text, field, path_text
from plugbay.node.api.applying.typed.types import FieldType, ListMerge, ListType, MapType, ScalarType
from plugbay.node.api.applying.typed.walking import MistypedValue, ValueForm, form_of, item_element


def check_type(value: object, kind: FieldType, *, duplicates_allowed: bool = False) -> None:
    """Check a whole object.

    Args:
        duplicates_allowed: whether a list may have two items that are not told apart; old objects may.

    Raises:
        MistypedValue: all that is wrong, each with its place.
    """
    problems = list(_problems(value, kind, (), duplicates_allowed))
    if problems:
        text = problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])
        raise MistypedValue((), text)


def _problems(value: object, kind: FieldType, path: Path, duplicates_allowed: bool) -> Iterator[str]:
    if value is None:
        return
    match form_of(value, kind), value:
        case ValueForm.MAP, dict():
            assert kind.map is not None
            yield from _map_problems(value, kind.map, path, duplicates_allowed)
        case ValueForm.LIST, list():
            assert kind.list is not None
            yield from _list_problems(value, kind.list, path, duplicates_allowed)
        case ValueForm.SCALAR, _:
            assert kind.scalar is not None
            if not _is_of(value, kind.scalar):
                yield f"{path_text(path)}: expected {_WORDS[kind.scalar]}, got {_shown(value)}"
        case form, _:
            yield f"{path_text(path)}: expected {form.name.lower()}, got {_shown(value)}"


def _map_problems(value: dict[str, object], kind: MapType, path: Path, duplicates_allowed: bool) -> Iterator[str]:
    for name, each in value.items():
        below = (*path, field(name))
        if (inner := kind.at(name)) is None:
            yield f"{path_text(below)}: field not declared in schema"
        else:
            yield from _problems(each, inner, below, duplicates_allowed)


def _list_problems(value: list[object], kind: ListType, path: Path, duplicates_allowed: bool) -> Iterator[str]:
    if kind.item is None:
        return
    seen: set[Element] = set()
    for index, item in enumerate(value):
        if kind.merge is ListMerge.ATOMIC:
            step = f"i:{index}"
        else:
            try:
                step = item_element(item, kind, path)
            except MistypedValue as error:
                yield str(error)
                return
            if step in seen and not duplicates_allowed:
                yield f"{path_text(path)}: duplicate entries for key {element_text(step)}"
            seen.add(step)
        yield from _problems(item, kind.item, (*path, step), duplicates_allowed)


_WORDS = {
    ScalarType.NUMERIC: "numeric (int or float)",
    ScalarType.STRING: "string",
    ScalarType.BOOLEAN: "boolean",
    ScalarType.ANY: "any scalar",
}


def _is_of(value: object, kind: ScalarType) -> bool:
    match kind:
        case ScalarType.NUMERIC:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ScalarType.STRING:
            return isinstance(value, str)
        case ScalarType.BOOLEAN:
            return isinstance(value, bool)
        case ScalarType.ANY:
            return isinstance(value, int | float | str)


def _shown(value: object) -> str:
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return str(value).lower()
        case _:
            return repr(value)[:80]
