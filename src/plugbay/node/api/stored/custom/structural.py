"""Structural schemas as rules for values, in the words of an API server. Pure.

Source: Kubernetes 1.36 ``apiextensions-apiserver/pkg/apiserver/validation``, kube-openapi
``pkg/validation/validate``, ``pkg/validation/errors/schema.go``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, Final

from plugbay.documents import Json
from plugbay.node.api.stored.custom.formats import is_formatted, number_problem
from plugbay.node.api.stored.custom.patterns import mismatch
from plugbay.node.api.stored.custom.pruning import EMBEDDED
from plugbay.objects.problems import FieldProblem, duplicate, invalid, required
from plugbay.printers import v1

INT_OR_STRING: Final = "x-kubernetes-int-or-string"
LIST_TYPE: Final = "x-kubernetes-list-type"
MAP_KEYS: Final = "x-kubernetes-list-map-keys"
_NOTHING: Final = object()


def value_problems(value: Json, schema: Json, before: Json | None = None) -> Iterator[FieldProblem]:
    """Problems of a whole object; what no schema can restrict of it is checked elsewhere.

    Args:
        before: its state before, if there was one. What is as it was then has no problems: the schema may be newer.
    """
    earlier = _NOTHING if before is None else _restricted(before, schema)
    yield from problems_of(_restricted(value, schema), schema | {"required": _own(schema)}, "", before=earlier)


def _restricted(value: Json, schema: Json) -> Json:
    """The part of an object that a schema may restrict."""
    rest = {name: each for name, each in value.items() if name not in ("apiVersion", "kind", "metadata")}
    if "metadata" in v1.mapping(schema, "properties"):
        metadata = v1.mapping(value, "metadata")
        rest["metadata"] = {name: metadata[name] for name in ("generateName", "name") if name in metadata}
    return rest


def _own(schema: Json) -> list[str]:
    return [name for name in v1.texts(schema, "required") if name not in ("apiVersion", "kind", "metadata")]


def problems_of(value: Any, schema: Json, path: str, *, before: Any = _NOTHING) -> Iterator[FieldProblem]:
    """Problems of a value at ``path``, unless it is what was there ``before``."""
    if before is not _NOTHING and _is_same(value, before):
        return
    if value is None:
        if schema.get("nullable") is not True and schema.get("type"):
            yield wrong_type(value, v1.text(schema, "type"), path)
        return
    wanted = "" if schema.get(INT_OR_STRING) is True else v1.text(schema, "type")
    if schema.get(INT_OR_STRING) is True and not (is_a(value, "integer") or isinstance(value, str)):
        yield wrong_type(value, "integer,string", path)
        return
    if wanted and not is_a(value, wanted):
        yield wrong_type(value, wanted, path)
        return
    if isinstance(choices := schema.get("enum"), list) and value not in choices:
        supported = ", ".join(json.dumps(each) for each in choices)
        text = f"Unsupported value: {json.dumps(value)}: supported values: {supported}"
        yield FieldProblem("FieldValueNotSupported", path, text)
    match value:
        case bool():
            pass
        case int() | float():
            yield from _number_problems(value, schema, path)
        case str():
            yield from _text_problems(value, schema, path)
        case list():
            yield from _list_problems(value, schema, path, before)
        case dict():
            yield from _mapping_problems(value, schema, path, before)
    yield from _combined_problems(value, schema, path)


def _is_same(value: Any, before: Any) -> bool:
    """Whether two JSON values are equal; to Python, true is 1."""
    match value, before:
        case dict(), dict():
            return value.keys() == before.keys() and all(_is_same(each, before[name]) for name, each in value.items())
        case list(), list():
            return len(value) == len(before) and all(map(_is_same, value, before))
        case _:
            return isinstance(value, bool) is isinstance(before, bool) and bool(value == before)


def _number_problems(value: float, schema: Json, path: str) -> Iterator[FieldProblem]:
    if rule := number_problem(value, schema):
        yield invalid(path, value, f"{rule} in {path}")
    least, most, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if isinstance(least, int | float):
        is_open = schema.get("exclusiveMinimum") is True
        if value < least or (is_open and value == least):
            words = "greater than" if is_open else "greater than or equal to"
            yield _should(path, value, f"should be {words} {least}")
    if isinstance(most, int | float):
        is_open = schema.get("exclusiveMaximum") is True
        if value > most or (is_open and value == most):
            yield _should(path, value, f"should be {'less than' if is_open else 'less than or equal to'} {most}")
    if isinstance(step, int | float) and step and not math.isclose(value / step, round(value / step)):
        yield _should(path, value, f"should be a multiple of {step}")


def _text_problems(value: str, schema: Json, path: str) -> Iterator[FieldProblem]:
    if len(value) < v1.number(schema, "minLength"):
        yield _should(path, value, f"should be at least {v1.number(schema, 'minLength')} chars long")
    if "maxLength" in schema and len(value) > v1.number(schema, "maxLength"):
        most = v1.number(schema, "maxLength")
        yield FieldProblem("FieldValueTooLong", path, f"Too long: may not be more than {most} bytes")
    if rule := mismatch(value, schema):
        yield _should(path, value, rule)
    if not is_formatted(value, schema):
        yield invalid(path, value, f'{path} in body must be of type {schema["format"]}: "{value}"')


def _list_problems(value: list[Any], schema: Json, path: str, before: Any) -> Iterator[FieldProblem]:
    if len(value) < v1.number(schema, "minItems"):
        yield _should(path, len(value), f"should have at least {v1.number(schema, 'minItems')} items")
    if "maxItems" in schema and len(value) > v1.number(schema, "maxItems"):
        text = f"Too many: {len(value)}: must have at most {v1.number(schema, 'maxItems')} items"
        yield FieldProblem("FieldValueTooMany", path, text)
    has_keys = schema.get(LIST_TYPE) == "map"
    earlier = {_told(each, schema): each for each in before} if has_keys and isinstance(before, list) else {}
    seen: set[str] = set()
    for at, each in enumerate(value):
        where, told = f"{path}[{at}]", _told(each, schema) or str(at)
        if told in seen:
            yield duplicate(where, told.strip('"'))
        seen.add(told)
        yield from problems_of(each, v1.mapping(schema, "items"), where, before=earlier.get(told, _NOTHING))


def _told(item: Any, schema: Json) -> str:
    """The text that tells an item from the others of its list; empty where any item may be there twice."""
    if schema.get(LIST_TYPE) == "map" and isinstance(item, dict):
        return json.dumps({key: item.get(key) for key in v1.texts(schema, MAP_KEYS)})
    if schema.get(LIST_TYPE) == "set" or schema.get("uniqueItems") is True:
        return json.dumps(item, sort_keys=True)
    return ""


def _mapping_problems(value: Json, schema: Json, path: str, before: Any) -> Iterator[FieldProblem]:
    known, others = v1.mapping(schema, "properties"), v1.mapping(schema, "additionalProperties")
    for name in v1.texts(schema, "required"):
        if name not in value:
            yield required(_below(path, name))
    if schema.get(EMBEDDED) is True:
        for name in ("apiVersion", "kind"):
            if not v1.text(value, name):
                yield required(_below(path, name), "must not be empty")
    if len(value) < v1.number(schema, "minProperties"):
        yield _should(path, len(value), f"should have at least {v1.number(schema, 'minProperties')} properties")
    if "maxProperties" in schema and len(value) > v1.number(schema, "maxProperties"):
        text = f"Too many: {len(value)}: must have at most {v1.number(schema, 'maxProperties')} items"
        yield FieldProblem("FieldValueTooMany", path, text)
    for name, each in value.items():
        inner = v1.mapping(known, name) if name in known else others
        where = _below(path, name) if name in known else f"{path}[{name}]"
        earlier = before.get(name, _NOTHING) if isinstance(before, dict) else _NOTHING
        yield from problems_of(each, inner, where, before=earlier)


def _combined_problems(value: Any, schema: Json, path: str) -> Iterator[FieldProblem]:
    for each in v1.objects(schema, "allOf"):
        yield from problems_of(value, each, path)
    if alternatives := v1.objects(schema, "anyOf"):
        if not any(_fits(value, each, path) for each in alternatives):
            yield invalid(path, value, f'"{path}" must validate at least one schema (anyOf)')
    if alternatives := v1.objects(schema, "oneOf"):
        fitting = sum(_fits(value, each, path) for each in alternatives)
        if fitting != 1:
            yield invalid(path, value, f'"{path}" must validate one and only one schema (oneOf). Found {fitting} valid')
    if isinstance(other := schema.get("not"), dict) and _fits(value, other, path):
        yield invalid(path, value, f'"{path}" must not validate the schema (not)')


def _fits(value: Any, schema: Json, path: str) -> bool:
    return next(problems_of(value, schema, path), None) is None


def is_a(value: Any, wanted: str) -> bool:
    """Whether a value has the type that a schema names."""
    match wanted:
        case "integer":
            return not isinstance(value, bool) and (
                isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            )
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def wrong_type(value: Any, wanted: str, path: str) -> FieldProblem:
    kind = next(
        (each for each in ("boolean", "integer", "number", "string", "array", "object") if is_a(value, each)), "null"
    )
    rule = f'{path} in body must be of type {wanted}: "{kind}"'
    return FieldProblem("FieldValueTypeInvalid", path, f'Invalid value: "{kind}": {rule}')


def _should(path: str, value: object, rule: str) -> FieldProblem:
    return invalid(path, value, f"{path} in body {rule}")


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
