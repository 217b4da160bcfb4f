"""An applied configuration, merged into an object. Pure.

Source: structured-merge-diff v6 ``typed/merge.go``.
"""

from __future__ import annotations

from typing import Any

from plugbay.node.api.applying import elements
from plugbay.node.api.applying.elements import Element, Path, element_text
from plugbay.node.api.applying.typed.types import FieldType, ListMerge, ListType
from plugbay.node.api.applying.typed.walking import (
    ABSENT,
    MistypedValue,
    ValueForm,
    as_list,
    as_map,
    forms_of,
    item_element,
)


def merged(before: object, config: object, kind: FieldType) -> Any:
    """``before`` with all that ``config`` says; nothing goes, and neither argument changes.

    Lists keep the order of ``before``, unless ``config`` has their common items in another one.

    Raises:
        MistypedValue: a value is not of that type.
    """
    return _merged(before, config, kind, ())


def _merged(before: object, config: object, kind: FieldType, path: Path) -> Any:
    form = forms_of(before, config, kind)[-1]
    if form is ValueForm.MAP and kind.map is not None and not kind.map.is_atomic:
        ours, theirs = as_map(before) or {}, as_map(config) or {}
        if ours or theirs:
            found = {}
            for name in dict.fromkeys([*ours, *theirs]):
                one, other = ours.get(name, ABSENT), theirs.get(name, ABSENT)
                inner = kind.map.at(name)
                assert inner is not None, f"{name} has been checked"
                found[name] = _merged(one, other, inner, (*path, elements.field(name)))
            return _present(found)
    elif form is ValueForm.LIST and kind.list is not None and kind.list.merge is not ListMerge.ATOMIC:
        items, wanted = as_list(before) or [], as_list(config) or []
        if items or wanted:
            return _merged_lists(items, wanted, kind.list, path)
    return before if config is ABSENT else config


def _present(found: dict[str, Any]) -> Any:
    return {name: each for name, each in found.items() if each is not ABSENT} or ABSENT


def _merged_lists(before: list[object], config: list[object], kind: ListType, path: Path) -> Any:
    """The items in an order that keeps both, ours where they disagree; an item that only we have stays behind its
    predecessor."""
    ours = [item_element(item, kind, path) for item in before]
    theirs = [item_element(item, kind, path) for item in config]
    wanted = dict(zip(theirs, config, strict=True))
    if len(wanted) != len(config):
        repeated = next(step for step in theirs if theirs.count(step) > 1)
        raise MistypedValue(path, f"duplicate entries for key {element_text(repeated)}")
    present: dict[Element, object] = {}
    for step, item in zip(ours, before, strict=True):
        present[step] = None if step in present else item  # items that are not told apart are not merged into

    def joined(step: Element) -> Any:
        assert kind.item is not None
        return _merged(present.get(step, ABSENT), wanted[step], kind.item, (*path, step))

    found: list[Any] = []
    shared = [step for step in theirs if step in present][::-1]
    next_shared = shared.pop() if shared else None
    done: set[Element] = set()
    at = wanted_at = 0
    while at < len(ours) or wanted_at < len(theirs):
        if at < len(ours):
            step = ours[at]
            if wanted_at < len(theirs):
                if step == theirs[wanted_at]:
                    found.append(joined(step))
                    done.add(step)
                    at, wanted_at = at + 1, wanted_at + 1
                    next_shared = shared.pop() if shared else None
                    continue
                if step in wanted and next_shared is not None and step != next_shared:
                    at += 1  # its turn comes in their order
                    continue
            if step not in wanted:
                found.append(before[at])
                at += 1
                continue
            if step in done:
                at += 1
        if wanted_at < len(theirs):
            step = theirs[wanted_at]
            found.append(joined(step))
            done.add(step)
            wanted_at += 1
            if step == next_shared:
                next_shared = shared.pop() if shared else None
    return [each for each in found if each is not ABSENT] or ABSENT
