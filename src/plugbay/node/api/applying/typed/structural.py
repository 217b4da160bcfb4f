"""The type of custom resources, from the schema of their definition. Pure.

Source: kube-openapi ``pkg/schemaconv/openapi.go``; Kubernetes 1.36 ``apiextensions-apiserver`` (structural schemas).
"""

from __future__ import annotations

from typing import Final

from plugbay.documents import Json
from plugbay.node.api.applying.typed.builtin_types import OBJECT
from plugbay.node.api.applying.typed.types import (
    ATOMIC,
    DEDUCED,
    FieldType,
    ListMerge,
    ListType,
    MapType,
    Others,
    ScalarType,
)
from plugbay.printers import v1

_SCALARS: Final = {
    "integer": ScalarType.NUMERIC,
    "number": ScalarType.NUMERIC,
    "string": ScalarType.STRING,
    "boolean": ScalarType.BOOLEAN,
}
_PLAIN_FORMATS: Final = ("", "byte")
_IDENTITY: Final = {name: FieldType(ScalarType.STRING) for name in ("apiVersion", "kind")}


def structural_type(schema: Json) -> FieldType:
    """The type of the objects that ``openAPIV3Schema`` describes."""
    found = _object_type(schema, preserves=False)
    assert OBJECT.map is not None
    metadata = OBJECT.map.fields["metadata"]
    return FieldType(map=MapType({**found.fields, **_IDENTITY, "metadata": metadata}, found.others))


def _type(schema: object, *, preserves: bool) -> FieldType:
    if not isinstance(schema, dict):
        return DEDUCED
    preserves = preserves or schema.get("x-kubernetes-preserve-unknown-fields") is True
    match schema.get("type"):
        case "object":
            return FieldType(map=_object_type(schema, preserves=preserves))
        case "array":
            return FieldType(list=_list_type(schema, preserves=preserves))
        case "string" if v1.text(schema, "format") not in _PLAIN_FORMATS:
            return FieldType(ScalarType.ANY)
        case str() as name if name in _SCALARS:
            return FieldType(_SCALARS[name])
        case _:
            # An integer or a string, or anything at all.
            return FieldType(
                ScalarType.ANY, _list_type(schema, preserves=preserves), _object_type(schema, preserves=preserves)
            )


def _object_type(schema: Json, *, preserves: bool) -> MapType:
    preserves = preserves or schema.get("x-kubernetes-preserve-unknown-fields") is True
    properties = v1.mapping(schema, "properties")
    fields = {name: _type(each, preserves=preserves) for name, each in properties.items()}
    if schema.get("x-kubernetes-embedded-resource") is True:
        assert OBJECT.map is not None
        fields = {**fields, **_IDENTITY, "metadata": OBJECT.map.fields["metadata"]}
    others: FieldType | Others = Others.NONE
    match schema.get("additionalProperties"):
        case dict() as inner:
            others = _type(inner, preserves=preserves)
        case True:
            others = Others.DEDUCED
        case None if preserves or not properties:
            others = Others.DEDUCED
    return MapType(fields, others, schema.get("x-kubernetes-map-type") == "atomic")


def _list_type(schema: Json, *, preserves: bool) -> ListType:
    items = schema.get("items")
    item = _type(items, preserves=preserves) if items is not None else ATOMIC
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return ListType(ListMerge.SET, item)
        case "map":
            keys = tuple(v1.texts(schema, "x-kubernetes-list-map-keys"))
            found = {name: v1.at(items, "properties", name, "default") for name in keys}
            return ListType(
                ListMerge.KEYED, item, keys, {name: each for name, each in found.items() if each is not None}
            )
    return ListType(item=item)
