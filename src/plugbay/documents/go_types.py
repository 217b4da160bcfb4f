"""Values of JSON as Go's ``encoding/json`` reads them into its types. Pure.

Source: Go 1.24 ``encoding/json``: ``decode.go``.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from plugbay.documents.go_json import Number, Object, Value, kind

T = TypeVar("T")

_INTEGER: Final = re.compile("[+-]?[0-9]+", re.ASCII)
_DIGITS: Final = re.compile("[0-9]+", re.ASCII)
_BASE64: Final = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_MAX_DIGITS: Final = 4000
"""Python refuses to convert longer numbers; none of them would fit anyway."""


class NotDecodable(ValueError):
    """Go would refuse the value; the argument says why, as a part of a sentence."""


def members(value: Value, what: str) -> Iterator[tuple[str, Value]]:
    """The members of an object.

    Raises:
        NotDecodable: ``value`` is not an object.
    """
    if not isinstance(value, Object):
        raise NotDecodable(f"{what} is {kind(value)}, not an object")
    yield from value.members


def items(value: Value, what: str) -> list[Value]:
    if not isinstance(value, list):
        raise NotDecodable(f"{what} is {kind(value)}, not a list")
    return value


def text(value: Value, what: str) -> str:
    """Read a text; null leaves it empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise NotDecodable(f"{what} is {kind(value)}, not a text")
    return value


def texts(value: Value, what: str) -> tuple[str, ...] | None:
    """Read a list of texts, or null."""
    return None if value is None else tuple(text(item, f"an item of {what}") for item in items(value, what))


def unsigned(value: Value, what: str, bits: int) -> int:
    """Read a number written with digits only."""
    literal = value.literal if isinstance(value, Number) else ""
    if not _DIGITS.fullmatch(literal) or len(literal) > _MAX_DIGITS or int(literal) >= 1 << bits:
        shown = literal[:40] if literal else kind(value)
        raise NotDecodable(f"{what} is {shown}, not an integer from 0 to {(1 << bits) - 1}")
    return int(literal)


def integer_key(name: str, what: str) -> int:
    """Read a member name that stands for an integer of 64 bits; a sign and leading zeros are allowed."""
    if not _INTEGER.fullmatch(name) or len(name) > _MAX_DIGITS or not -(1 << 63) <= int(name) < 1 << 63:
        raise NotDecodable(f"{what} is {name[:40]!r}, not an integer of 64 bits")
    return int(name)


class Slice(Generic[T]):
    """A list that is read as Go reads one: a repeated member is read into the elements that the earlier one left.

    Elements past the end of a shorter list keep their values, and a longer list that comes later finds them there. An
    empty list and null remove all elements.

    Source: Go 1.24 ``encoding/json/decode.go``, ``array``.
    """

    def __init__(self) -> None:
        self._elements: list[T] = []
        self._length: int | None = 0

    @property
    def elements(self) -> Sequence[T] | None:
        """The elements of the list that was read last; None after null."""
        return None if self._length is None else self._elements[: self._length]

    def read(self, value: Value, what: str, read: Callable[[T, Value], T], zero: Callable[[], T]) -> None:
        """Read a list, or null.

        Args:
            read: makes an element of an item and of the earlier element at its place.
            zero: the earlier element of a place that had none.

        Raises:
            NotDecodable: ``value`` is neither a list nor null.
        """
        listed = () if value is None else items(value, what)
        del self._elements[len(self._elements) if listed else 0 :]
        for index, item in enumerate(listed):
            if index == len(self._elements):
                self._elements.append(zero())
            self._elements[index] = read(self._elements[index], item)
        self._length = None if value is None else len(listed)

    def replace(self, elements: Iterable[T]) -> None:
        """Replace the list by ``elements``."""
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
