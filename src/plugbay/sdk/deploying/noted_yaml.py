"""YAML with comments, for manifests that people read before they apply them, and for templates of a chart. Pure."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from plugbay.documents.texts import to_yaml
from plugbay.errors.wording import on_one_line
from plugbay.values import dataclass

_WIDTH: Final = 110
_HERE: Final = "\0"
_PASTING: Final = f"| nindent {_HERE} }}}}"
_BLOCK: Final = re.compile(r"(?!\n)(?:[^\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff])*\n")
"""Texts that a literal block holds as they are: they end with one line end, and begin with no blank line."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A value with a comment above it."""

    value: object
    note: str


@dataclass(frozen=True, slots=True)
class ChartExpression:
    """An expression of Helm's templates, which gives a scalar."""

    text: str


@dataclass(frozen=True, slots=True)
class Pasted:
    """An expression that gives a mapping or a list; as an item of a list it gives further items.

    With the key `FURTHER` it gives further keys of the mapping that it stands in.
    """

    text: str


FURTHER: Final = "\0"
"""No key of a mapping: see `Pasted`."""


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A value that is there, with its key if it has one, where an action such as ``if`` or ``with`` says so."""

    opening: str
    value: object


def noted_yaml(documents: Sequence[Mapping[str, object]]) -> str:
    """The documents as one text.

    Values are mappings, lists, texts, integers and booleans, any of them `Noted`. Templates have what is above, too.
    """
    return "---\n".join("".join(f"{_placed(line)}\n" for line in _mapping(each)) for each in documents)


def _placed(line: str) -> str:
    """A line that pastes knows by how much, which is where it stands itself."""
    return line.replace(_HERE, str(len(line) - len(line.lstrip(" ")))) if line.endswith(_PASTING) else line


def _mapping(value: Mapping[str, object]) -> Iterator[str]:
    for key, below in value.items():
        if isinstance(below, Wrapped):
            yield f"{{{{- {below.opening} }}}}"
            yield from _mapping({key: below.value})
            yield "{{- end }}"
            continue
        if isinstance(below, Noted):
            yield from _comment(below.note)
            below = below.value
        if key == FURTHER and isinstance(below, Pasted):
            yield _pasted(below)
            continue
        name = _scalar(key)
        match below:
            case Mapping() if below:
                yield f"{name}:"
                yield from _indented(_mapping(below), "  ")
            case list() if below:
                yield f"{name}:"
                yield from _items(below)
            case Pasted():
                yield f"{name}:"
                yield f"  {_pasted(below)}"
            case str() if "\n" in below and _is_block(below):
                yield f"{name}: |"
                yield from (f"  {line}" if line else "" for line in below[:-1].split("\n"))
            case _:
                yield f"{name}: {_scalar(below)}"


def _items(values: Sequence[object]) -> Iterator[str]:
    for each in values:
        if isinstance(each, Wrapped):
            yield f"{{{{- {each.opening} }}}}"
            yield from _items([each.value])
            yield "{{- end }}"
            continue
        if isinstance(each, Pasted):
            yield _pasted(each)
            continue
        if isinstance(each, Noted):
            yield from _comment(each.note)
            each = each.value
        lines = list(_mapping(each)) if isinstance(each, Mapping) and each else [_scalar(each)]
        at = next(number for number, line in enumerate(lines) if not line.startswith("#"))
        yield from lines[:at]
        yield f"- {lines[at]}"
        yield from _indented(iter(lines[at + 1 :]), "  ")


def _pasted(value: Pasted) -> str:
    return f"{{{{- toYaml {value.text} {_PASTING}"


def _is_block(text: str) -> bool:
    return text[0] not in " \t" and not text.endswith("\n\n") and _BLOCK.fullmatch(text) is not None


def _indented(lines: Iterator[str], by: str) -> Iterator[str]:
    return (f"{by}{line}" if line else line for line in lines)


def _comment(note: str) -> Iterator[str]:
    return (f"# {on_one_line(line)}" for line in textwrap.wrap(note, _WIDTH))


def _scalar(value: object) -> str:
    if isinstance(value, ChartExpression):
        return f"{{{{ {value.text} }}}}"
    if isinstance(value, str) and not value.isprintable():
        return f'"{"".join(map(_escaped, value))}"'
    if value in ({}, []) or isinstance(value, bool | int):
        return json.dumps(value)
    return to_yaml([value])[2:-1]


def _escaped(character: str) -> str:
    if character.isprintable() and character not in '"\\':
        return character
    return f"\\U{ord(character):08x}"
