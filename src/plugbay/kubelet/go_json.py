"""JSON as Go's ``encoding/json`` reads and writes it, where that differs from Python's: pure.

Source: Go 1.24 ``encoding/json``: ``decode.go``, ``encode.go``, ``fold.go``.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NoReturn, TypeAlias, TypeVar

T = TypeVar("T")

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_HTML: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
_INTEGER: Final = re.compile("[+-]?[0-9]+", re.ASCII)
_DIGITS: Final = re.compile("[0-9]+", re.ASCII)
_BASE64: Final = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_MAX_DIGITS: Final = 4000
"""Python refuses to convert longer numbers; none of them would fit anyway."""


class NotDecodable(ValueError):
    """Go would refuse the text; the argument says why, as a part of a sentence."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is spelled."""

    literal: str


@dataclass(frozen=True, slots=True)
class Object:
    """The members in their order; names may be repeated."""

    members: Sequence[tuple[str, Value]]


Value: TypeAlias = "Object | list[Value] | str | Number | bool | None"


def parse(content: bytes) -> Value:
    """The JSON value that is all of ``content``.

    Each byte that is no UTF-8, and each half of a surrogate pair without the other, reads as U+FFFD.

    Raises:
        NotDecodable: not JSON, or nested deeper than we can read.
    """
    try:
        value: Value = _DECODER.decode(content.decode(errors="surrogateescape"))
    except json.JSONDecodeError as error:
        if not content.strip():
            raise NotDecodable("it is empty") from None
        raise NotDecodable(f"it is not JSON at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise NotDecodable("values are nested too deep") from None
    return value


def members(value: Value, what: str) -> Iterator[tuple[str, Value]]:
    """The members of an object.

    Raises:
        NotDecodable: ``value`` is no object.
    """
    if not isinstance(value, Object):
        raise NotDecodable(f"{what} is {kind(value)}, not an object")
    yield from value.members


def items(value: Value, what: str) -> list[Value]:
    if not isinstance(value, list):
        raise NotDecodable(f"{what} is {kind(value)}, not a list")
    return value


def text(value: Value, what: str) -> str:
    """A text; null leaves it empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise NotDecodable(f"{what} is {kind(value)}, not a text")
    return value


def texts(value: Value, what: str) -> tuple[str, ...] | None:
    """A list of texts, or null."""
    return None if value is None else tuple(text(item, f"an item of {what}") for item in items(value, what))


def unsigned(value: Value, what: str, bits: int) -> int:
    """A number written with digits only."""
    literal = value.literal if isinstance(value, Number) else ""
    if not _DIGITS.fullmatch(literal) or len(literal) > _MAX_DIGITS or int(literal) >= 1 << bits:
        shown = literal[:40] if literal else kind(value)
        raise NotDecodable(f"{what} is {shown}, not an integer from 0 to {(1 << bits) - 1}")
    return int(literal)


def integer_key(name: str, what: str) -> int:
    """A member name that stands for an integer of 64 bits; a sign and leading zeros are fine."""
    if not _INTEGER.fullmatch(name) or len(name) > _MAX_DIGITS or not -(1 << 63) <= int(name) < 1 << 63:
        raise NotDecodable(f"{what} is {name[:40]!r}, not an integer of 64 bits")
    return int(name)


class Slice(Generic[T]):
    """A list that is read as Go reads one: a repeated member is read into the elements that the earlier one left.

    Elements past the end of a shorter list keep what they held, and a longer list that comes later finds it there. An
    empty list and null leave nothing to be found.

    Source: Go 1.24 ``encoding/json/decode.go``, ``array``.
    """

    def __init__(self) -> None:
        self._elements: list[T] = []
        self._length: int | None = 0

    @property
    def elements(self) -> Sequence[T] | None:
        """What the list read last holds; None after null."""
        return None if self._length is None else self._elements[: self._length]

    def read(self, value: Value, what: str, read: Callable[[T, Value], T], zero: Callable[[], T]) -> None:
        """Read a list, or null.

        Args:
            read: the element that an item makes of the one before it at its place.
            zero: the element before the first.

        Raises:
            NotDecodable: ``value`` is neither.
        """
        listed = () if value is None else items(value, what)
        del self._elements[len(self._elements) if listed else 0 :]
        for index, item in enumerate(listed):
            if index == len(self._elements):
                self._elements.append(zero())
            self._elements[index] = read(self._elements[index], item)
        self._length = None if value is None else len(listed)

    def replace(self, elements: Iterable[T]) -> None:
        """Hold ``elements``, as if no list had been read before."""
        self._elements = list(elements)
        self._length = len(self._elements)


def read_octets(into: Slice[int], value: Value, what: str) -> None:
    """Read bytes: base64 with padding, where line breaks do not count; a list of numbers; or null.

    Raises:
        NotDecodable: none of these.
    """
    if not isinstance(value, str):
        into.read(value, what, lambda before, item: _octet(before, item, what), int)
        return
    encoded = value.replace("\r", "").replace("\n", "")
    if not _BASE64.fullmatch(encoded):
        raise NotDecodable(f"{what} is not base64")
    into.replace(binascii.a2b_base64(encoded))


def _octet(before: int, value: Value, what: str) -> int:
    return before if value is None else unsigned(value, f"an item of {what}", 8)


def folded(name: str) -> str:
    """The member name without regard to case; among the characters that are not ASCII, two fold to an ASCII letter."""
    return name.replace("\u017f", "s").lower()


def kind(value: Value) -> str:
    match value:
        case Object():
            return "an object"
        case list():
            return "a list"
        case str():
            return "a text"
        case Number():
            return "a number"
        case None:
            return "null"
        case _:
            return "true" if value else "false"


def quoted(value: str) -> str:
    """The text as a JSON string in Go's spelling."""
    return json.dumps(value, ensure_ascii=False).translate(_HTML)


def quoted_list(values: Sequence[str]) -> str:
    """The texts as a JSON list in Go's spelling."""
    return compact(list(values))


def compact(value: object) -> str:
    """JSON without blanks, in Go's spelling.

    Args:
        value: what `json.dumps` takes; members are written in their order.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_HTML)


def _refuse_constant(name: str) -> NoReturn:
    raise NotDecodable(f"not JSON: {name} is not a valid number")


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
