"""Strategic merge patches: merges that know by which field the items of a list are told apart. Pure.

Source: Kubernetes 1.36 ``apimachinery/pkg/util/strategicpatch``; design document "Strategic merge patch".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from plugbay.documents import Json
from plugbay.values import dataclass

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE_VALUES: Final = "$deleteFromPrimitiveList/"


@dataclass(frozen=True, slots=True)
class MergeRule:
    """The way in which a field is merged.

    Attributes:
        key: of a list of mappings, the field that tells its items apart; empty for a list that is replaced whole.
        is_set: whether a list of plain values is a set, to which a patch adds.
        fields: the rules of the fields below; those without one are merged if they are mappings, else replaced.
    """

    key: str = ""
    is_set: bool = False
    fields: Mapping[str, MergeRule] = field(default_factory=dict)


REPLACED: Final = MergeRule()


class UnusablePatch(ValueError):
    """A patch that cannot be applied; its text says why."""


def strategic_merge(value: Json, patch: Json, rule: MergeRule = REPLACED) -> Json:
    """Apply a patch to an object, which stays as it is.

    Raises:
        UnusablePatch: it has a directive that means nothing, or items without their key.
    """
    match patch.get(_DIRECTIVE, "merge"):
        case "replace":
            return {name: _cleared(each) for name, each in patch.items() if name != _DIRECTIVE and each is not None}
        case "delete":
            return {}
        case "merge":
            pass
        case other:
            raise UnusablePatch(f"{_DIRECTIVE}: {other!r} is none of merge, replace and delete")
    merged = dict(value)
    if (retained := patch.get(_RETAIN)) is not None:
        names = _list(_RETAIN, retained)
        merged = {name: each for name, each in merged.items() if name in names}
    for name, wanted in patch.items():
        if name in (_DIRECTIVE, _RETAIN):
            continue
        if name.startswith(_DELETE_VALUES):
            target, gone = name.removeprefix(_DELETE_VALUES), _list(name, wanted)
            merged[target] = [each for each in _list(target, merged.get(target, [])) if each not in gone]
        elif not name.startswith(_ORDER):
            _merge_field(merged, name, wanted, patch.get(f"{_ORDER}{name}"), rule.fields.get(name, REPLACED))
    for name, order in patch.items():
        target = name.removeprefix(_ORDER)
        items = merged.get(target)
        if name != target and target not in patch and isinstance(items, list):
            merged[target] = _ordered(items, order, rule.fields.get(target, REPLACED))
    return merged


def _merge_field(merged: Json, name: str, wanted: object, order: object, rule: MergeRule) -> None:
    before = merged.get(name)
    if wanted is None:
        merged.pop(name, None)
    elif isinstance(wanted, dict):
        if wanted.get(_DIRECTIVE) == "delete":
            merged.pop(name, None)
        else:
            merged[name] = strategic_merge(before if isinstance(before, dict) else {}, wanted, rule)
    elif isinstance(wanted, list):
        items = _merge_list(name, before if isinstance(before, list) else [], wanted, rule)
        merged[name] = items if order is None else _ordered(items, order, rule)
    else:
        merged[name] = wanted


def _merge_list(name: str, before: list[Any], wanted: list[Any], rule: MergeRule) -> list[Any]:
    if rule.is_set:
        return [*before, *(each for each in wanted if each not in before)]
    if not rule.key:
        return [_cleared(each) if isinstance(each, dict) else each for each in wanted]
    if any(isinstance(each, dict) and each.get(_DIRECTIVE) == "replace" for each in wanted):
        return [_cleared(each) for each in wanted if set(each) - {_DIRECTIVE}]
    items = list(before)
    for each in wanted:
        if not isinstance(each, dict) or rule.key not in each:
            raise UnusablePatch(f"an item of {name} has no {rule.key}, which tells its items apart")
        at = next((index for index, item in enumerate(items) if _key(item, rule) == each[rule.key]), None)
        if each.get(_DIRECTIVE) == "delete":
            items = [item for item in items if _key(item, rule) != each[rule.key]]
        elif at is None:
            items.append(strategic_merge({}, each, rule))
        else:
            items[at] = strategic_merge(items[at], each, rule)
    return items


def _ordered(items: list[Any], order: object, rule: MergeRule) -> list[Any]:
    """``items`` in the order that the client wants; an item that it does not name stays behind the one before it."""
    wanted = [_key(each, rule) for each in _list(_ORDER, order)]
    places = {_hashable(key): place for place, key in enumerate(wanted)}
    placed: list[tuple[int, int, Any]] = []
    last = -1
    for index, item in enumerate(items):
        last = places.get(_hashable(_key(item, rule)), last)
        placed.append((last, index, item))
    return [item for _, _, item in sorted(placed, key=lambda each: each[:2])]


def _key(item: object, rule: MergeRule) -> object:
    return item.get(rule.key) if rule.key and isinstance(item, dict) else item


def _hashable(key: object) -> object:
    return key if not isinstance(key, dict | list) else repr(key)


def _cleared(value: Any) -> Any:
    """A new value of a patch, without its directives and without what it takes away."""
    if isinstance(value, list):
        return [_cleared(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _cleared(each) for name, each in value.items() if each is not None and not name.startswith("$")}


def _list(name: str, value: object) -> Sequence[Any]:
    if not isinstance(value, list):
        raise UnusablePatch(f"{name} is not a list")
    return value
