"""Objects in Kubernetes' protobuf form, which Go's typed clients send, kubectl's ``create`` among them, to JSON values.

Pure but for the table of fields that it reads.

Source: Kubernetes 1.36 ``apimachinery/pkg/runtime/serializer/protobuf/protobuf.go``,
``apimachinery/pkg/runtime/generated.proto`` (Unknown).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from plugbay.documents import Json
from plugbay.documents.sound_json import read_json
from plugbay.objects.messages.fields import INLINED, MessageField, has_message, message_fields, message_of

_MAGIC: Final = b"k8s\x00"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_ONE_S: Final = -62135596800
"""Go's zero time."""
_DEPTH: Final = 64


class UnreadableMessage(ValueError):
    """Bytes that are not an object in protobuf form, or of a kind whose fields are not known; its text says which."""


def object_of(body: bytes) -> Json:
    """The object as JSON has it; fields without a value are left out.

    Raises:
        UnreadableMessage: there is none.
    """
    if not body.startswith(_MAGIC):
        raise UnreadableMessage("the body does not begin as an object in protobuf form does")
    try:
        return _enveloped(body[len(_MAGIC) :])
    except UnreadableMessage:
        raise
    except (IndexError, struct.error, ValueError, OverflowError, RecursionError) as error:
        raise UnreadableMessage(f"the body is not an object in protobuf form: {error}") from None


def _enveloped(envelope: bytes) -> Json:
    parts = {number: value for number, value in _parts(envelope) if isinstance(value, bytes)}
    identity = {number: value for number, value in _parts(parts.get(1, b"")) if isinstance(value, bytes)}
    api_version, kind = identity.get(1, b"").decode(), identity.get(2, b"").decode()
    raw = parts.get(2, b"")
    if parts.get(4, b"") == b"application/json":
        value = read_json(raw)
        if not isinstance(value, dict):
            raise UnreadableMessage("the body is not an object")
        return value
    message = "meta/v1.DeleteOptions" if kind == "DeleteOptions" else message_of(api_version, kind)
    if not has_message(message):
        raise UnreadableMessage(f"the fields of {kind} in {api_version} are not known in protobuf form")
    return {"apiVersion": api_version, "kind": kind, **_message(raw, message, _DEPTH)}


def _message(raw: bytes, message: str, depth: int) -> Json:
    if depth == 0:
        raise UnreadableMessage("the object is nested too deep")
    known = {field.number: field for field in message_fields(message)}
    read: dict[str, Any] = {}
    for number, part in _parts(raw):
        if (field := known.get(number)) is not None:
            _take(read, field, part, depth - 1)
    return read


def _take(read: dict[str, Any], field: MessageField, part: bytes | int, depth: int) -> None:
    if field.name == INLINED:
        read |= _message(_bytes(part), field.type, depth)
    elif field.type.startswith("["):
        read.setdefault(field.name, []).append(_value(field.type[1:-1], part, depth))
    elif field.type.startswith("{"):
        entry = dict(_parts(_bytes(part)))
        name = _bytes(entry.get(1, b"")).decode()
        default: bytes | int = 0 if field.type[1:-1] in ("i", "b") else b""
        read.setdefault(field.name, {})[name] = _value(field.type[1:-1], entry.get(2, default), depth)
    else:
        value = _value(field.type, part, depth)
        if value is not None and (value or field.is_optional):
            read[field.name] = value


def _value(code: str, part: bytes | int, depth: int) -> Any:
    match code:
        case "s":
            return _bytes(part).decode()
        case "b":
            return bool(_number(part))
        case "i":
            number = _number(part)
            return number - (1 << 64) if number >> 63 else number
        case "d":
            [found] = struct.unpack("<d", struct.pack("<Q", _number(part)))
            return found
        case "y":
            return base64.b64encode(_bytes(part)).decode()
        case "Q":
            return _text_in(part, 1)
        case "I":
            inner = dict(_parts(_bytes(part)))
            return _text_in(part, 3) if inner.get(1) else _value("i", inner.get(2, 0), depth)
        case "T" | "M":
            return _moment(_bytes(part), micros=code == "M")
        case "J":
            inner = dict(_parts(_bytes(part)))
            return read_json(_bytes(inner.get(1, b"null")))
        case _ if code.startswith("["):  # a message that is nothing but a list
            return [_value(code[1:-1], each, depth) for number, each in _parts(_bytes(part)) if number == 1]
        case _:
            return _message(_bytes(part), code, depth)


def _moment(raw: bytes, *, micros: bool) -> str | None:
    """RFC 3339; None for a moment that is not set."""
    inner = dict(_parts(raw))
    seconds, nanos = _value("i", inner.get(1, 0), 1), _value("i", inner.get(2, 0), 1)
    if (not raw) or seconds == _YEAR_ONE_S:
        return None
    moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micros else "%Y-%m-%dT%H:%M:%SZ")


def _text_in(part: bytes | int, number: int) -> str:
    return _bytes(dict(_parts(_bytes(part))).get(number, b"")).decode()


def _bytes(part: bytes | int) -> bytes:
    if isinstance(part, int):
        raise UnreadableMessage("the body is not an object in protobuf form: a number where there is none")
    return part


def _number(part: bytes | int) -> int:
    if isinstance(part, bytes):
        raise UnreadableMessage("the body is not an object in protobuf form: no number where there is one")
    return part


def _parts(raw: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a message by number, in their order."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        match key & 7:
            case 0:
                value, at = _varint(raw, at)
                yield key >> 3, value
            case 1:
                yield key >> 3, struct.unpack_from("<Q", raw, at)[0]
                at += 8
            case 2:
                size, at = _varint(raw, at)
                if at + size > len(raw):
                    raise UnreadableMessage("the body is not an object in protobuf form: it ends too early")
                yield key >> 3, raw[at : at + size]
                at += size
            case 5:
                yield key >> 3, struct.unpack_from("<I", raw, at)[0]
                at += 4
            case other:
                raise UnreadableMessage(f"the body is not an object in protobuf form: wire type {other}")


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if shift > 63:
            raise UnreadableMessage("the body is not an object in protobuf form: a number is too long")
