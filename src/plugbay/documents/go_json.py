"""JSON as Go's ``encoding/json`` reads and writes it, where that differs from Python's. Pure.

Source: Go 1.24 ``encoding/json``: ``decode.go``, ``encode.go``, ``fold.go``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Final, NoReturn, TypeAlias

from plugbay.documents import JsonObject, JsonValue
from plugbay.values import dataclass

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_HTML: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
_WRITTEN_OUT: Final = 1e21
"""The smallest number that Go writes with an exponent."""
_TOO_DEEP: Final = "not JSON that can be used: it is nested too deep"


class NotJson(ValueError):
    """The text is not JSON. Attributes: ``line`` and ``column``, 1-based; None when there is no one place."""

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(problem)
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Number:
    """A number that keeps its spelling."""

    literal: str


@dataclass(frozen=True, slots=True)
class Object:
    """The members in their order; names may be repeated."""

    members: Sequence[tuple[str, Value]]


Value: TypeAlias = "Object | list[Value] | str | Number | bool | None"


def parse(content: bytes) -> Value:
    """Read ``content``, which is one JSON value.

    Each byte that is not UTF-8, and each half of a surrogate pair without the other, reads as U+FFFD.

    Raises:
        NotJson: not JSON, or nested deeper than we can read.
    """
    if not content.strip():
        raise NotJson("is empty")
    try:
        value: Value = _DECODER.decode(content.decode(errors="surrogateescape"))
    except json.JSONDecodeError as error:
        raise NotJson(f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}", error.lineno, error.colno) from None
    except RecursionError:
        raise NotJson(_TOO_DEEP) from None
    return value


def parse_plain(content: bytes) -> JsonValue:
    """The JSON value that is all of ``content``, in Python's own types.

    A number without a fraction is an integer however it is written, as it is when Go writes it again: a program that
    wants an integer takes no ``1500.0``.

    Raises:
        NotJson: as from `parse`, or a number is too large for Go's ``float64``.
    """
    value = parse(content)
    try:
        return _plain(value)
    except RecursionError:
        raise NotJson(_TOO_DEEP) from None


def _plain(value: Value) -> JsonValue:
    match value:
        case Object():
            return {name: _plain(each) for name, each in value.members}
        case list():
            return [_plain(each) for each in value]
        case Number():
            return _number(value.literal)
        case _:
            return value


def _number(literal: str) -> int | float:
    try:
        value = float(literal)
        if literal.lstrip("-").isdecimal():
            return int(literal)
    except ValueError:  # Python converts some thousand digits only
        value = math.inf
    if math.isinf(value):
        raise NotJson(f"not JSON that can be used: {literal[:40]} is too large")
    return int(value) if value.is_integer() and abs(value) < _WRITTEN_OUT else value


def member(value: JsonObject, name: str) -> JsonValue:
    """The member of that name; when there is none, the last whose name differs only in case; None without either.

    Go reads into its structures like this, and engines rely on it.
    """
    if name in value:
        return value[name]
    wanted = name.lower()
    return next((each for key, each in reversed(value.items()) if folded(key) == wanted), None)


def folded(name: str) -> str:
    """The member name without regard to case; two of the characters that are not ASCII fold to an ASCII letter."""
    return name.replace("\u017f", "s").lower()


def kind(value: Value | JsonValue) -> str:
    """The kind of ``value``, for a sentence."""
    match value:
        case Object() | dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return "a text"
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case _:
            return "a number"


def quoted(value: str) -> str:
    """The text as a JSON string in Go's spelling."""
    return json.dumps(value, ensure_ascii=False).translate(_HTML)


def quoted_list(values: Sequence[str]) -> str:
    """The texts as a JSON list in Go's spelling."""
    return compact(list(values))


def compact(value: object, *, sort_keys: bool = False) -> str:
    """JSON without blanks, in Go's spelling.

    Args:
        value: what `json.dumps` takes; members are written in their order.
        sort_keys: write members in the order of their names instead, as Go writes maps.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys).translate(_HTML)


def structure(value: JsonObject) -> str:
    """JSON of a Go structure with these members in this order; whatever is in them are maps, in order of their keys."""
    members = (f"{quoted(name)}:{compact(each, sort_keys=True)}" for name, each in value.items())
    return f"{{{','.join(members)}}}"


def _refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"not JSON: {name} is not a valid number")


def _object(pairs: list[tuple[str, Value]]) -> Object:
    return Object([(_cleaned(name), _clean(value)) for name, value in pairs])


def _clean(value: Value) -> Value:
    """``value`` without surrogates; objects inside are clean already."""
    if isinstance(value, str):
        return _cleaned(value)
    return [_clean(item) for item in value] if isinstance(value, list) else value


def _cleaned(value: str) -> str:
    return value if value.isascii() else _SURROGATES.sub("\ufffd", value)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=_refuse_constant
)
