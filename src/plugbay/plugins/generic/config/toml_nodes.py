"""TOML as trees of nodes. `tomllib` says whether a text is TOML; here only places and characters are found. Pure.

Source: TOML 1.0.0.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Final

from plugbay.errors import InvalidDocument
from plugbay.plugins.generic.config.nodes import Keyed, Keys, Node, Scalar, ScalarKind, Series
from plugbay.plugins.generic.config.spots import Spot

_BLANK: Final = re.compile(r"[ \t\r\n]*(?:#[^\n]*[ \t\r\n]*)*")
_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}(?!")|\'\'\'.*?\'{3,5}(?!\')|"(?:\\.|[^"\\])*"|\'[^\']*\'', re.DOTALL
)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_BARE: Final = re.compile(r"[^,\]}#\r\n]+")
_INTEGER: Final = re.compile(r"[-+]?(?:0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+|[0-9][0-9_]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]+)?(?:[eE][-+]?[0-9_]+)?|inf|nan)")
_TOO_LONG: Final = re.compile(r"[0-9][0-9_]{4300}")
_WHERE: Final = re.compile(r"(?P<problem>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")


def read_toml(text: str, *, source: str) -> Node | None:
    """The tables of a text; None for one without any.

    Raises:
        InvalidDocument: not TOML.
    """
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _broken(error, text, source) from error
    except ValueError as error:  # Python does not convert more digits
        found = _TOO_LONG.search(text)
        line = None if found is None else text.count("\n", 0, found.start()) + 1
        raise InvalidDocument("not valid TOML: this number has too many digits", line=line, source=source) from error
    table = _Scanner(text).tables()
    return table.node() if table.entries else None


def _broken(error: tomllib.TOMLDecodeError, text: str, source: str) -> InvalidDocument:
    found = _WHERE.fullmatch(str(error))
    problem = f"not valid TOML: {found['problem'] if found else error}"
    if found and found["line"]:
        return InvalidDocument(problem, line=int(found["line"]), column=int(found["column"]), source=source)
    return InvalidDocument(problem, line=text.count("\n") + 1, column=1, source=source)


class _Table:
    """A table while it is filled."""

    def __init__(self, spot: Spot) -> None:
        self.spot = spot
        self.entries: dict[str, tuple[Spot, _Table | list[_Table] | Node]] = {}

    def below(self, key: str, spot: Spot) -> _Table:
        """The table of a key, or the last one of a list of tables; made if it is not there."""
        _, found = self.entries.setdefault(key, (spot, _Table(spot)))
        if isinstance(found, list):
            return found[-1]
        assert isinstance(found, _Table)
        return found

    def append(self, key: str, spot: Spot) -> _Table:
        """A further table of a list of tables."""
        _, found = self.entries.setdefault(key, (spot, []))
        assert isinstance(found, list)
        found.append(_Table(spot))
        return found[-1]

    def node(self) -> Keys:
        """The table as a node."""
        return Keys(
            tuple(Keyed(key, spot, _node(value, spot)) for key, (spot, value) in self.entries.items()), self.spot
        )


def _node(value: _Table | list[_Table] | Node, spot: Spot) -> Node:
    if isinstance(value, _Table):
        return value.node()
    return Series(tuple(each.node() for each in value), spot) if isinstance(value, list) else value


class _Scanner:
    """Goes through a text that is known to be TOML."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def tables(self) -> _Table:
        top = current = _Table(Spot(1, 1))
        while self._skip_blanks():
            if self._takes("[["):
                *path, last = self._keys()
                current = self._reach(top, path).append(*last)
                self._takes("]]")
            elif self._takes("["):
                current = self._reach(top, self._keys())
                self._takes("]")
            else:
                self._assign(current)
        return top

    def _assign(self, table: _Table) -> None:
        *path, (key, spot) = self._keys()
        self._takes("=")
        self._reach(table, path).entries[key] = (spot, self._value())

    @staticmethod
    def _reach(table: _Table, path: list[tuple[str, Spot]]) -> _Table:
        for key, spot in path:
            table = table.below(key, spot)
        return table

    def _keys(self) -> list[tuple[str, Spot]]:
        """A dotted key."""
        found = [self._key()]
        while self._takes("."):
            found.append(self._key())
        return found

    def _key(self) -> tuple[str, Spot]:
        self._skip_blanks()
        spot = self._spot()
        bare = _BARE_KEY.match(self._text, self._at)
        if bare:
            self._at = bare.end()
            return bare[0], spot
        return self._string(), spot

    def _value(self) -> Node:
        self._skip_blanks()
        spot = self._spot()
        if self._takes("["):
            return Series(tuple(self._items()), spot)
        if self._takes("{"):
            table = _Table(spot)
            while not self._takes("}"):
                self._assign(table)
                self._takes(",")
            return table.node()
        if self._text[self._at] in "\"'":
            return Scalar(self._string(), ScalarKind.TEXT, spot, is_quoted=True)
        bare = _BARE.match(self._text, self._at)
        assert bare is not None
        self._at = bare.end()
        return _bare(bare[0].strip(), spot)

    def _items(self) -> Iterator[Node]:
        while not self._takes("]"):
            yield self._value()
            self._takes(",")

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        value = tomllib.loads(f"x = {found[0]}")["x"]
        assert isinstance(value, str)
        return value

    def _takes(self, mark: str) -> bool:
        self._skip_blanks()
        if not self._text.startswith(mark, self._at):
            return False
        self._at += len(mark)
        return True

    def _skip_blanks(self) -> bool:
        """Whether anything follows."""
        blank = _BLANK.match(self._text, self._at)
        assert blank is not None
        self._at = blank.end()
        return self._at < len(self._text)

    def _spot(self) -> Spot:
        begin = self._text.rfind("\n", 0, self._at)
        return Spot(self._text.count("\n", 0, self._at) + 1, self._at - begin)


def _bare(text: str, spot: Spot) -> Scalar:
    if text in ("true", "false"):
        return Scalar(text, ScalarKind.BOOLEAN, spot)
    if _INTEGER.fullmatch(text):
        return Scalar(text, ScalarKind.INTEGER, spot)
    if _FLOAT.fullmatch(text):
        return Scalar(text, ScalarKind.FLOAT, spot)
    return Scalar(text, ScalarKind.TEXT, spot)  # a date
