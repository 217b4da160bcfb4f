"""JSON as trees of nodes. `json` says whether a text is JSON; here only places and characters are found. Pure.

YAML takes most of JSON, and not all: no key of more than 1,024 characters, no colon on the line behind its key.

Source: RFC 8259.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from plugbay.documents.texts import MAX_VALUES
from plugbay.errors import InvalidDocument
from plugbay.plugins.generic.config.nodes import Keyed, Keys, Node, Scalar, ScalarKind, Series, whole_text
from plugbay.plugins.generic.config.spots import Spot

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_BARE: Final = re.compile(r"[^\s,\]}]+")
_WORDS: Final = {"true": ScalarKind.BOOLEAN, "false": ScalarKind.BOOLEAN, "null": ScalarKind.NULL}
_OF_PYTHON: Final = ("NaN", "Infinity", "-Infinity")


def read_json(text: str, *, source: str) -> Node | None:
    """The value of a JSON text; None for an empty one, or null.

    Raises:
        InvalidDocument: not JSON, or too much of it.
        RecursionError: it is nested too deeply.
    """
    if not text.strip():
        return None
    try:
        json.loads(text, parse_int=str, parse_float=str)  # fields say what numbers mean; Python refuses 4,300 digits
    except json.JSONDecodeError as error:
        raise InvalidDocument(
            f"not valid JSON: {error.msg}", line=error.lineno, column=error.colno, source=source
        ) from error
    found = _Scanner(text, source).value()
    return None if isinstance(found, Scalar) and found.kind is ScalarKind.NULL else found


class _Scanner:
    """Goes once through a text that is JSON."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source
        self._at = 0
        self._values = 0
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]

    def value(self) -> Node:
        spot = self._spot()
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._refused(spot, f"holds more than {MAX_VALUES} values")
        match self._text[self._at]:
            case "{":
                return Keys(tuple(self._entry() for _ in self._items("}")), spot)
            case "[":
                return Series(tuple(self.value() for _ in self._items("]")), spot)
            case '"':
                return Scalar(self._string(), ScalarKind.TEXT, spot, is_quoted=True)
            case _:
                return self._bare(spot)

    def _items(self, end: str) -> Iterator[None]:
        """Stand at each item of a list or an object in turn, and behind its end at last."""
        self._at += 1
        while True:
            self._skip()
            if self._text[self._at] == end:
                self._at += 1
                return
            if self._text[self._at] == ",":
                self._at += 1
                self._skip()
            yield None

    def _entry(self) -> Keyed:
        spot = self._spot()
        key = self._string()
        self._skip()
        self._at += 1  # the colon
        return Keyed(key, spot, self.value())

    def _string(self) -> str:
        read: str = json.loads(self._take(_STRING))
        return whole_text(read)

    def _bare(self, spot: Spot) -> Scalar:
        text = self._take(_BARE)
        if text in _OF_PYTHON:
            raise self._refused(spot, f"not valid JSON: {text} is not a number there")
        is_whole = text.removeprefix("-").isdigit()
        return Scalar(text, _WORDS.get(text) or (ScalarKind.INTEGER if is_whole else ScalarKind.FLOAT), spot)

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        assert found is not None, "it is JSON"
        self._at = found.end()
        return found[0]

    def _skip(self) -> None:
        self._take(_BLANK)

    def _spot(self) -> Spot:
        """The place of what comes next."""
        self._skip()
        line = bisect_right(self._lines, self._at)
        return Spot(line, self._at - self._lines[line - 1] + 1)

    def _refused(self, spot: Spot, problem: str) -> InvalidDocument:
        return InvalidDocument(problem, line=spot.line, column=spot.column, source=self._source)
