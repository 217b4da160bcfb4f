"""The body of a request as an object of a kind: types are held against the schema, unknown fields are left out. Pure.

Source: Kubernetes 1.36 ``apimachinery/pkg/runtime/serializer/json``, ``apiserver/pkg/endpoints/handlers/create.go``
(fieldValidation).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, NamedTuple, assert_never

from plugbay.documents import Json
from plugbay.manifest.shapes import (
    Amount,
    Anything,
    Field,
    Flag,
    ListOf,
    MapOf,
    Shape,
    Support,
    Table,
    Text,
    Whole,
    WholeOrText,
)
from plugbay.node.api.refusals import unreadable
from plugbay.node.api.resources import ApiResource
from plugbay.objects.messages.fields import message_table
from plugbay.ops.routing import HttpError, Request

ANY: Final = Table(
    {
        "apiVersion": Field(Support.USED, Text()),
        "kind": Field(Support.USED, Text()),
        "metadata": Field(Support.USED, message_table("meta/v1.ObjectMeta")),
    }
)
"""The fields of every object."""


class FieldValidation(Enum):
    """The treatment of unknown fields, as ``fieldValidation`` names it."""

    STRICT = "Strict"
    WARN = "Warn"
    IGNORE = "Ignore"


def field_validation(request: Request) -> FieldValidation:
    return FieldValidation(request.query.get("fieldValidation") or FieldValidation.WARN.value)


class Decoded(NamedTuple):
    """An object.

    Attributes:
        unknown: the fields that were left out.
        repeated: the fields that stand twice in one object; the last one counts.
    """

    value: Json
    unknown: tuple[str, ...]
    repeated: tuple[str, ...] = ()


def decoded(body: object, resource: ApiResource) -> Decoded:
    """Read ``body`` as an object of a kind; null is the same as leaving a field out.

    Raises:
        HttpError: 400, it is not one.
    """
    if not isinstance(body, dict):
        raise unreadable(resource, f"json: cannot unmarshal {_found(body)} into Go value of type {resource.kind}")
    expected = {"apiVersion": resource.api_version, "kind": resource.kind}
    if (found := body.get("apiVersion") or expected["apiVersion"]) != expected["apiVersion"]:
        problem = f"the API version in the data ({found}) does not match the expected API version"
        raise HttpError(400, "BadRequest", f"{problem} ({expected['apiVersion']})")
    if (found := body.get("kind") or expected["kind"]) != expected["kind"]:
        problem = f"the kind in the data ({found}) does not match the expected kind ({expected['kind']})"
        raise HttpError(400, "BadRequest", problem)
    walk = _Walk(resource)
    value = walk.table(body, resource.schema or ANY, "")
    if resource.schema is None:
        value = {name: each for name, each in body.items() if each is not None} | value
        walk.unknown = [name for name in walk.unknown if "." in name]
    rest = {name: each for name, each in value.items() if name not in expected and name != "metadata"}
    known = Decoded({**expected, "metadata": value.get("metadata", {}), **rest}, tuple(walk.unknown))
    if resource.stored is None or resource.stored.prune is None:
        return known
    kept, unknown = resource.stored.prune(known.value)
    return Decoded(kept, (*known.unknown, *unknown))


class _Walk:
    def __init__(self, resource: ApiResource) -> None:
        self.unknown: list[str] = []
        self._resource = resource

    def table(self, value: Json, table: Table, path: str) -> Json:
        read: Json = {}
        for name, each in value.items():
            where = f"{path}.{name}" if path else name
            if (field := table.fields.get(name)) is None:
                self.unknown.append(where)
            elif each is not None:
                read[name] = self._value(each, field.shape, where)
        return read

    def _value(self, value: Any, shape: Shape, path: str) -> Any:
        match shape:
            case Table():
                if isinstance(value, dict):
                    return self.table(value, shape, path)
            case MapOf(inner):
                if isinstance(value, dict):
                    return {name: self._item(each, inner, path) for name, each in value.items()}
            case ListOf(inner):
                if isinstance(value, list):
                    return [self._item(each, inner, f"{path}[{at}]") for at, each in enumerate(value)]
            case Text():
                if isinstance(value, str):
                    return value
            case Flag():
                if isinstance(value, bool):
                    return value
            case Whole():
                if _is_whole(value):
                    return value
            case WholeOrText():
                if isinstance(value, str) or _is_whole(value):
                    return value
            case Amount():
                if isinstance(value, str | int | float) and not isinstance(value, bool):
                    return value
            case Anything():
                return value
            case _:
                assert_never(shape)
        plain = path.partition("[")[0]
        why = f"json: cannot unmarshal {_found(value)} into Go struct field {self._resource.kind}.{plain} of type"
        raise unreadable(self._resource, f"{why} {_wanted(shape)}")

    def _item(self, value: Any, shape: Shape, path: str) -> Any:
        return _zero(shape) if value is None else self._value(value, shape, path)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _zero(shape: Shape) -> Any:
    """The value that Go makes of a null in a list or a map."""
    match shape:
        case Text():
            return ""
        case Flag():
            return False
        case Whole() | WholeOrText() | Amount():
            return 0
        case ListOf():
            return []
        case Table() | MapOf():
            return {}
        case Anything():
            return None
        case _:
            assert_never(shape)


def _found(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case None:
            return "null"
        case _:
            return "object"


def _wanted(shape: Shape) -> str:
    match shape:
        case Text():
            return "string"
        case Flag():
            return "bool"
        case Whole():
            return "int64"
        case WholeOrText():
            return "intstr.IntOrString"
        case Amount():
            return "quantity"
        case ListOf(item):
            return f"[]{_wanted(item)}"
        case MapOf(value):
            return f"map[string]{_wanted(value)}"
        case _:
            return "object"
