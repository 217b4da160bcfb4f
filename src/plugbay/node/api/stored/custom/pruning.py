"""Structural schemas as the shape of objects: unknown fields are left out, defaults filled in. Pure.

Source: Kubernetes 1.36 ``apiextensions-apiserver/pkg/apiserver/schema/pruning``, ``defaulting``.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from plugbay.documents import Json
from plugbay.printers import v1

KEEPS_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
_IDENTITY: Final = ("apiVersion", "kind", "metadata")


class Pruned(NamedTuple):
    """An object without the fields that its schema does not know.

    Attributes:
        unknown: the fields that were left out.
    """

    value: Json
    unknown: tuple[str, ...]


def pruned(value: Json, schema: Json) -> Pruned:
    """``value`` with the fields that ``schema`` knows; identity and metadata stay as they are."""
    unknown: list[str] = []
    kept = _pruned(value, schema, "", unknown, is_object=True)
    return Pruned(kept, tuple(unknown))


def defaulted(value: Json, schema: Json) -> Json:
    """``value`` with the defaults of ``schema`` for fields that it lacks."""
    found = _defaulted({name: each for name, each in value.items() if name != "metadata"}, schema)
    return {**found, "metadata": value["metadata"]} if "metadata" in value else found


def _pruned(value: Any, schema: Json, path: str, unknown: list[str], *, is_object: bool) -> Any:
    if isinstance(value, list):
        items = v1.mapping(schema, "items")
        return [_pruned(each, items, f"{path}[{at}]", unknown, is_object=False) for at, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    is_object = is_object or schema.get(EMBEDDED) is True
    known, others = v1.mapping(schema, "properties"), schema.get("additionalProperties")
    kept: Json = {}
    for name, each in value.items():
        where = f"{path}.{name}" if path else name
        if is_object and name in _IDENTITY:
            kept[name] = each
        elif name in known:
            kept[name] = _pruned(each, v1.mapping(known, name), where, unknown, is_object=False)
        elif isinstance(others, dict):
            kept[name] = _pruned(each, others, where, unknown, is_object=False)
        elif others is True or schema.get(KEEPS_UNKNOWN) is True:
            kept[name] = each
        else:
            unknown.append(where)
    return kept


def _defaulted(value: Any, schema: Json) -> Any:
    if isinstance(value, list):
        items = v1.mapping(schema, "items")
        return [_defaulted(each, items) for each in value]
    if not isinstance(value, dict):
        return value
    known, others = v1.mapping(schema, "properties"), v1.mapping(schema, "additionalProperties")
    filled: Json = {}
    for name, each in value.items():
        inner = v1.mapping(known, name) if name in known else others
        if each is None and inner.get("nullable") is not True:
            if "default" not in inner:
                filled[name] = each
        else:
            filled[name] = _defaulted(each, inner)
    for name in known:
        if name not in filled and "default" in v1.mapping(known, name):
            filled[name] = _defaulted(v1.mapping(known, name)["default"], v1.mapping(known, name))
    return filled
