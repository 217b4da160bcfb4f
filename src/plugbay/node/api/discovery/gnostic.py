"""Documents of OpenAPI v2 in protobuf, the only form that kubectl before 1.27 reads. Pure.

Only what `plugbay.node.api.discovery.swagger` writes is known.

Source: gnostic ``openapiv2/OpenAPIv2.proto``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from plugbay.documents import Json
from plugbay.printers import v1

_BYTES: Final = 2
_METHODS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def gnostic_document(document: Json) -> bytes:
    """A document of OpenAPI v2 as a message ``openapi.v2.Document``."""
    info = v1.mapping(document, "info")
    paths = (_part(2, _named(path, _path(item))) for path, item in _items(document, "paths"))
    definitions = (_part(1, _named(name, _schema(it))) for name, it in _items(document, "definitions"))
    return b"".join(
        (
            _text(1, v1.text(document, "swagger")),
            _part(2, _text(1, v1.text(info, "title")) + _text(2, v1.text(info, "version"))),
            _part(8, b"".join(paths)),
            _part(9, b"".join(definitions)),
        )
    )


def _path(item: Json) -> bytes:
    operations = {method: each for method, each in item.items() if isinstance(each, dict)}
    return b"".join(_part(_METHODS[method], _operation(each)) for method, each in operations.items())


def _operation(operation: Json) -> bytes:
    responses = (_part(1, _named(code, _part(1, _response(it)))) for code, it in _items(operation, "responses"))
    return b"".join(
        (
            _text(5, v1.text(operation, "operationId")),
            _texts(6, v1.texts(operation, "produces")),
            _texts(7, v1.texts(operation, "consumes")),
            *(_part(8, _part(1, _parameter(each))) for each in v1.objects(operation, "parameters")),
            _part(9, b"".join(responses)),
            _extensions(13, operation),
        )
    )


def _parameter(parameter: Json) -> bytes:
    name, place = v1.text(parameter, "name"), v1.text(parameter, "in")
    if place == "body":
        body = _text(2, name) + _text(3, place) + _yes(4) + _part(5, _schema(v1.mapping(parameter, "schema")))
        return _part(1, body)
    return _part(2, _part(3, _text(2, place) + _text(4, name) + _text(6, v1.text(parameter, "type"))))


def _response(response: Json) -> bytes:
    schema = v1.mapping(response, "schema")
    return _text(1, v1.text(response, "description")) + (_part(2, _part(1, _schema(schema))) if schema else b"")


def _schema(schema: Json) -> bytes:
    parts = [_text(number, v1.text(schema, name)) for number, name in _SCHEMA_TEXTS]
    parts.append(_texts(19, v1.texts(schema, "required")))
    if isinstance(choices := schema.get("enum"), list):
        parts += (_part(20, _any(each)) for each in choices)
    if "additionalProperties" in schema:
        parts.append(_part(21, _part(1, _schema(v1.mapping(schema, "additionalProperties")))))
    if kind := v1.text(schema, "type"):
        parts.append(_part(22, _text(1, kind)))
    if "items" in schema:
        parts.append(_part(23, _part(1, _schema(v1.mapping(schema, "items")))))
    if "properties" in schema:
        properties = (_part(1, _named(name, _schema(each))) for name, each in _items(schema, "properties"))
        parts.append(_part(25, b"".join(properties)))
    parts.append(_extensions(31, schema))
    return b"".join(parts)


_SCHEMA_TEXTS: Final = ((1, "$ref"), (2, "format"), (3, "title"), (4, "description"))


def _items(value: Json, name: str) -> list[tuple[str, Json]]:
    """The members of a mapping of mappings."""
    return [(key, each) for key, each in v1.mapping(value, name).items() if isinstance(each, dict)]


def _extensions(number: int, value: Json) -> bytes:
    return b"".join(_part(number, _named(name, _any(each))) for name, each in value.items() if name.startswith("x-"))


def _any(value: object) -> bytes:
    """A value as the YAML that clients read it from; JSON is YAML."""
    return _text(2, json.dumps(value))


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _part(2, value)


def _yes(number: int) -> bytes:
    return _varint(number << 3) + b"\x01"


def _texts(number: int, texts: Iterable[str]) -> bytes:
    return b"".join(_part(number, text.encode()) for text in texts)


def _text(number: int, text: str) -> bytes:
    return _part(number, text.encode()) if text else b""


def _part(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
