"""Fields taken out of a value. Pure.

Source: structured-merge-diff v6 ``typed/remove.go``, ``fieldpath/set.go`` (EnsureNamedFieldsAreMembers).
"""

from __future__ import annotations

from typing import Any

from plugbay.node.api.applying import elements
from plugbay.node.api.applying.elements import KEY, name_of
from plugbay.node.api.applying.sets import FieldSet
from plugbay.node.api.applying.typed.types import FieldType, ListMerge
from plugbay.node.api.applying.typed.walking import ValueForm, form_of, has_element, item_element


def removed(value: object, fields: FieldSet, kind: FieldType) -> Any:
    """``value``, which stays as it is, without some of its fields. What is empty then is null."""
    match form_of(value, kind), value:
        case ValueForm.SCALAR, _:
            return value
        case ValueForm.MAP, dict():
            assert kind.map is not None
            if kind.map.is_atomic:
                return None
            found = {}
            for name, each in value.items():
                step = elements.field(name)
                if step in fields.members:
                    continue
                inner = kind.map.at(name)
                found[name] = removed(each, below, inner) if (below := fields.below(step)) and inner else each
            return found or None
        case ValueForm.LIST, list():
            assert kind.list is not None
            if kind.list.merge is ListMerge.ATOMIC or kind.list.item is None:
                return None
            items = []
            for item in value:
                step = item_element(item, kind.list, ()) if has_element(item, kind.list) else ""
                if step in fields.members:
                    continue
                items.append(removed(item, below, kind.list.item) if (below := fields.below(step)) else item)
            return items or None
    return None


def with_parents(fields: FieldSet, kind: FieldType | None) -> FieldSet:
    """``fields`` and all declared fields that they are in, which are in no set by themselves."""
    parents = set()
    children = {}
    for step, below in fields.children.items():
        inner = None
        if (name := name_of(step)) and kind and kind.map:
            inner = kind.map.at(name)
            if kind.map.is_field(name):
                parents.add(step)
        elif step.startswith(KEY) and kind and kind.list:
            inner = kind.list.item
        children[step] = with_parents(below, inner)
    return FieldSet(fields.members | parents, children)
