"""Templates: texts with ``{name}`` for a property of the device. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from plugbay.values import dataclass

INDEX: Final = "${index}"
"""The number of a device among those of its container, from 0 on: for names of variables."""

_PIECE: Final = re.compile(r"\{\{|\}\}|\$\{[^{}]*\}|\{[^{}]*\}|[{}]|[^{}$]+|\$")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]*")


@dataclass(frozen=True, slots=True)
class _Fact:
    name: str


@dataclass(frozen=True, slots=True)
class _Index:
    pass


@dataclass(frozen=True, slots=True)
class TemplateProblem:
    """A text that is not a template.

    Attributes:
        text: a sentence.
        offset: of the character in question, from 0 on.
    """

    text: str
    offset: int


@dataclass(frozen=True, slots=True)
class Template:
    """A text with gaps; ``pieces`` are its texts and gaps in order."""

    pieces: tuple[str | _Fact | _Index, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the properties, each one once, in the order of the text."""
        return tuple(dict.fromkeys(each.name for each in self.pieces if isinstance(each, _Fact)))

    @property
    def has_index(self) -> bool:
        """Whether the text depends on the other devices of the container."""
        return any(isinstance(each, _Index) for each in self.pieces)

    def missing(self, facts: Mapping[str, str]) -> tuple[str, ...]:
        """The names that ``facts`` do not have."""
        return tuple(name for name in self.names if name not in facts)

    def fill(self, facts: Mapping[str, str], *, index: int = 0) -> str:
        """The text for a device.

        Raises:
            KeyError: a name is `missing`; it is the argument.
        """
        return "".join(_filled(each, facts, index) for each in self.pieces)


def parse_template(text: str, *, takes_index: bool = False) -> Template | TemplateProblem:
    """Read a template: ``{name}`` is a property, ``{{`` and ``}}`` are braces, and other characters are themselves.

    Args:
        takes_index: whether the text may have ``${index}``; a name of a variable may.
    """
    pieces: list[str | _Fact | _Index] = []
    for found in _PIECE.finditer(text):
        piece = _piece(found[0], takes_index=takes_index)
        if isinstance(piece, TemplateProblem):
            return TemplateProblem(piece.text, found.start() + piece.offset)
        if isinstance(piece, str) and pieces and isinstance(pieces[-1], str):
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return Template(tuple(pieces))


def _piece(text: str, *, takes_index: bool) -> str | _Fact | _Index | TemplateProblem:
    if text in ("{{", "}}"):
        return text[0]
    if text == INDEX:
        if takes_index:
            return _Index()
        return TemplateProblem("${index} may stand in the name of a variable only; write ${{index}} for the text", 0)
    if text.startswith("${"):
        hint = f"write {text[1:]} for the property or ${{{text[1:]}}} for the text"
        return TemplateProblem(f"{text} is not known here; {hint}", 0)
    if text == "{":
        return TemplateProblem("this { has no } behind it; write {{ for a brace", 0)
    if text == "}":
        return TemplateProblem("this } has no { before it; write }} for a brace", 0)
    if not text.startswith("{"):
        return text
    name = text[1:-1]
    if not name:
        return TemplateProblem("{} names no property; write {{}} for two braces", 0)
    if not _NAME.fullmatch(name):
        hint = f"; write {{{name.strip()}}}" if _NAME.fullmatch(name.strip()) else f"; write {{{text}}} for the text"
        return TemplateProblem(f"{text} is not the name of a property{hint}", 1)
    return _Fact(name)


def _filled(piece: str | _Fact | _Index, facts: Mapping[str, str], index: int) -> str:
    match piece:
        case _Fact(name=name):
            return facts[name]
        case _Index():
            return str(index)
        case _:
            return piece
