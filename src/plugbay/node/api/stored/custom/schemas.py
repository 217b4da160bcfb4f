"""Problems that keep a schema of a definition from being structural, in the words of an API server. Pure.

Source: Kubernetes 1.36 ``apiextensions-apiserver/pkg/apiserver/schema/validation.go``,
``pkg/apis/apiextensions/validation/validation.go``, ``pkg/apis/apiextensions/v1/types_jsonschema.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.stored.custom.patterns import pattern_problems
from plugbay.node.api.stored.custom.pruning import EMBEDDED, KEEPS_UNKNOWN
from plugbay.node.api.stored.custom.structural import (
    INT_OR_STRING,
    LIST_TYPE,
    MAP_KEYS,
    is_a,
    problems_of,
    wrong_type,
)
from plugbay.objects.problems import FieldProblem, forbidden, invalid, not_supported, required
from plugbay.printers import v1

_IDENTITY: Final = ("apiVersion", "kind", "metadata")
_METADATA: Final = frozenset({"default", "description", "properties", "required", "title", "type"})
"""The keywords that may restrict the metadata as a whole."""
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_KEYWORDS: Final = (
    dict.fromkeys(("$ref", "description", "format", "pattern", "title", "type", LIST_TYPE), "string")
    | dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "nullable", "uniqueItems"), "boolean")
    | dict.fromkeys((EMBEDDED, INT_OR_STRING, KEEPS_UNKNOWN), "boolean")
    | dict.fromkeys(("maximum", "minimum", "multipleOf"), "number")
    | dict.fromkeys(("maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"), "integer")
    | dict.fromkeys(("allOf", "anyOf", "enum", "oneOf", "required", MAP_KEYS), "array")
    | dict.fromkeys(("items", "not", "properties"), "object")
)
"""The types of what keywords say."""
_UNSUPPORTED: Final = ("$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties")
_STRUCTURE: Final = {
    "type": "must be empty to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "additionalProperties": "must be undefined to be structural",
    "nullable": "must be false to be structural",
    EMBEDDED: "must be false to be structural",
    INT_OR_STRING: "must be false to be structural",
    KEEPS_UNKNOWN: "must be false to be structural",
}
"""The keywords that say what an object is made of; conditions such as ``anyOf`` say what it may hold."""


def schema_problems(schema: Json, path: str) -> Iterator[FieldProblem]:
    """Problems of the schema of a version."""
    if not schema:
        yield required(path, "schemas are required")
    elif schema.get("type") != "object":
        yield invalid(f"{path}.type", schema.get("type", ""), "must be object at the root")
    else:
        properties = v1.mapping(schema, "properties")
        yield from _metadata_problems(v1.mapping(properties, "metadata"), f"{path}.properties[metadata]")
        inner = {name: each for name, each in properties.items() if name not in _IDENTITY}
        yield from _problems(schema | ({"properties": inner} if properties else {}), path, "object fields")


def _metadata_problems(schema: Json, path: str) -> Iterator[FieldProblem]:
    """A schema may restrict nothing of an object's metadata but its name."""
    if not schema:
        return
    if schema.get("type") != "object":
        yield invalid(f"{path}.type", schema.get("type", ""), "must be object")
    if schema.keys() - _METADATA or v1.mapping(schema, "properties").keys() - {"name", "generateName"}:
        rule = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(path, rule)
    for where, each in _inside(schema, path):
        yield from _problems(each, where, "object fields")


def _problems(schema: Json, path: str, place: str) -> Iterator[FieldProblem]:
    if unlike := list(_keyword_problems(schema, path)):
        yield from unlike
        return
    kind = v1.text(schema, "type")
    if not kind and not any(schema.get(each) is True for each in (KEEPS_UNKNOWN, INT_OR_STRING)):
        yield required(f"{path}.type", f"must not be empty for specified {place}")
    elif kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    elif kind and schema.get(INT_OR_STRING) is True:
        yield invalid(f"{path}.type", kind, "must be empty if x-kubernetes-int-or-string is true")
    if schema.get(EMBEDDED) is True and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object if x-kubernetes-embedded-resource is true")
    if schema.get(KEEPS_UNKNOWN) is False:
        yield invalid(f"{path}.{KEEPS_UNKNOWN}", False, "must be true or undefined")
    if schema.get("uniqueItems") is True:
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", why)
    if schema.get("properties") and schema.get("additionalProperties"):
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    yield from _list_problems(schema, path)
    yield from _condition_problems(schema, path, says_types=schema.get(INT_OR_STRING) is True)
    if schema.get("default") is not None:
        yield from problems_of(schema["default"], schema, f"{path}.default")
    for where, each in _inside(schema, path):
        yield from _problems(each, where, "array items" if where.endswith(".items") else "object fields")


def _keyword_problems(schema: Json, path: str) -> Iterator[FieldProblem]:
    """Keywords that no structural schema has, and those that say something else than they can."""
    for name in _UNSUPPORTED:
        if name in schema:
            yield forbidden(f"{path}.{name}", f"{name} is not supported")
    for name, kind in _KEYWORDS.items():
        if schema.get(name) is not None and not is_a(schema[name], kind):
            yield wrong_type(schema[name], kind, f"{path}.{name}")
    if not isinstance(schema.get("additionalProperties"), dict | bool | None):
        yield wrong_type(schema["additionalProperties"], "object", f"{path}.additionalProperties")
    for where, each in [*_members(schema, path), *_alternatives(schema, path)]:
        if not isinstance(each, dict):
            yield wrong_type(each, "object", where)
    for name in ("required", MAP_KEYS):
        for where, each in _elements(schema, path, name):
            if not isinstance(each, str):
                yield wrong_type(each, "string", where)


def _list_problems(schema: Json, path: str) -> Iterator[FieldProblem]:
    kind, way = v1.text(schema, "type"), v1.text(schema, LIST_TYPE)
    if kind == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")
    if not way:
        return
    if way not in ("atomic", "map", "set"):
        yield not_supported(f"{path}.{LIST_TYPE}", way, ("atomic", "map", "set"))
    if kind != "array":
        yield invalid(f"{path}.type", kind, "must be array if x-kubernetes-list-type is specified")
    if way != "map":
        return
    items = v1.mapping(schema, "items")
    if v1.text(items, "type") != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", v1.text(items, "type"), why)
    if not (keys := v1.texts(schema, MAP_KEYS)):
        yield required(f"{path}.{MAP_KEYS}", "must not be empty if x-kubernetes-list-type is map")
    if any(key not in v1.mapping(items, "properties") for key in keys):
        yield invalid(f"{path}.{MAP_KEYS}", keys, "entries must all be names of item properties")


def _condition_problems(schema: Json, path: str, *, says_types: bool) -> Iterator[FieldProblem]:
    """Problems of what a schema demands of values; ``says_types`` is whether its conditions may name types."""
    yield from pattern_problems(schema, path)
    for where, each in _conditions(schema, path):
        yield from _nested_problems(each, where, says_types=says_types)


def _nested_problems(schema: Json, path: str, *, says_types: bool) -> Iterator[FieldProblem]:
    if unlike := list(_keyword_problems(schema, path)):
        yield from unlike
        return
    for name, why in _STRUCTURE.items():
        if schema.get(name) not in (None, "", False) and not (name == "type" and says_types):
            yield forbidden(f"{path}.{name}", why)
    yield from _condition_problems(schema, path, says_types=says_types)
    for where, each in _inside(schema, path):
        yield from _nested_problems(each, where, says_types=False)


def _inside(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    """The schemas of what lies inside a value."""
    return ((where, each) for where, each in _members(schema, path) if isinstance(each, dict))


def _members(schema: Json, path: str) -> Iterator[tuple[str, object]]:
    for name, each in v1.mapping(schema, "properties").items():
        yield f"{path}.properties[{name}]", each
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield f"{path}.{name}", schema[name]


def _conditions(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    """The schemas that a value has to fit, or not."""
    yield from ((where, each) for where, each in _alternatives(schema, path) if isinstance(each, dict))
    if isinstance(other := schema.get("not"), dict):
        yield f"{path}.not", other


def _alternatives(schema: Json, path: str) -> Iterator[tuple[str, object]]:
    for name in ("allOf", "anyOf", "oneOf"):
        yield from _elements(schema, path, name)


def _elements(schema: Json, path: str, name: str) -> Iterator[tuple[str, object]]:
    found = schema.get(name)
    return ((f"{path}.{name}[{at}]", each) for at, each in enumerate(found if isinstance(found, list) else []))
