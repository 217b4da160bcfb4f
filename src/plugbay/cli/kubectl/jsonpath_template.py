"""The template of ``-o jsonpath``: text with the values of an object in it. Pure.

Source: client-go 1.36 ``util/jsonpath``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from plugbay.errors import UsageError
from plugbay.printers.jsonpath import JsonPath, find_all, parse_path
from plugbay.values import dataclass

_QUOTED: Final = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_PIECE: Final = re.compile(rf"""(?P<text>[^{{]+)|\{{(?P<inside>(?:{_QUOTED}|[^{{}}"'])*)\}}""")
_TEXT: Final = re.compile(_QUOTED)
_RANGE: Final = re.compile(r"range\s+(?P<path>.+)")
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class Values:
    """All values at a path, with spaces between them."""

    path: JsonPath


@dataclass(frozen=True, slots=True)
class Range:
    """``body`` for each value at a path, to which the paths in it lead from there."""

    path: JsonPath
    body: Template


Template: TypeAlias = tuple[str | Values | Range, ...]


def parse_template(text: str) -> Template:
    """Read a template such as ``{range .items[*]}{.metadata.name}{end}``; a text without braces is a path.

    Raises:
        UsageError: it is not a template, or has one of the paths that kubectl knows and we do not.
    """
    if not text:
        raise UsageError("-o jsonpath= wants a template such as {.items[*].metadata.name}")
    if "{" not in text:
        return (Values(_path(text)),)
    return _body(_pieces(text), text, is_in_range=False)


def render(template: Template, value: object) -> str:
    """The text that ``template`` makes of ``value``; a missing value is left out."""
    return "".join(_rendered(part, value) for part in template)


def _rendered(part: str | Values | Range, value: object) -> str:
    match part:
        case str():
            return part
        case Values():
            return " ".join(map(_shown, find_all(value, part.path)))
        case Range():
            return "".join(render(part.body, each) for each in find_all(value, part.path))


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _pieces(text: str) -> Iterator[tuple[bool, str]]:
    """The pieces of a template: texts in braces, without these, and texts outside of braces."""
    at = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            raise UsageError(f"-o jsonpath: {text!r} has a brace that is never closed, or a path we do not know")
        at = piece.end()
        yield (False, piece["text"]) if piece["text"] else (True, piece["inside"].strip())


def _body(pieces: Iterator[tuple[bool, str]], text: str, *, is_in_range: bool) -> Template:
    """Read parts up to the end of the template, or of the range that they are in."""
    parts: list[str | Values | Range] = []
    for is_inside, piece in pieces:
        if not is_inside:
            parts.append(piece)
        elif _TEXT.fullmatch(piece):
            parts.append(_ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), piece[1:-1]))
        elif found := _RANGE.fullmatch(piece):
            parts.append(Range(_path(found["path"]), _body(pieces, text, is_in_range=True)))
        elif piece != "end":
            parts.append(Values(_path(piece)))
        elif is_in_range:
            return tuple(parts)
        else:
            raise UsageError(f"-o jsonpath: {text!r} has an {{end}} without a {{range}}")
    if is_in_range:
        raise UsageError(f"-o jsonpath: {text!r} has a {{range}} without an {{end}}")
    return tuple(parts)


def _path(text: str) -> JsonPath:
    """A path from the value itself, which is ``.`` or ``@``."""
    return () if text in (".", "@") else parse_path(text.removeprefix("@"))
