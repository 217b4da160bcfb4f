"""Find the places of values in a JSON text, for messages. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

Path = tuple[str | int, ...]
"""Member names and list indices, from the outside in."""

_TOKEN: Final = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+)""", re.DOTALL)


class Place(NamedTuple):
    """The line and column of a value, both 1-based."""

    line: int
    column: int


@dataclass(slots=True)
class Places:
    """The result of `scan`.

    Attributes:
        by_path: where each member's name and each list's item begins.
        repeated: members that have the name of an earlier member of the same object, with their places.
    """

    by_path: dict[Path, Place] = field(default_factory=dict)
    repeated: list[tuple[Path, Place]] = field(default_factory=list)

    def of(self, path: Path) -> Place | None:
        """The place of ``path``, else of the innermost existing value around it; None if there is none."""
        while path and path not in self.by_path:
            path = path[:-1]
        return self.by_path.get(path)

    def forget(self, path: Path) -> None:
        """Drop ``path`` and what is inside: its name comes again, and the later one counts."""
        inside = [each for each in self.by_path if each[: len(path)] == path]
        for each in inside:
            del self.by_path[each]


def scan(content: bytes) -> Places:
    """The places in ``content``, which must be JSON that `documents.parse` accepts."""
    text = content.decode(errors="replace")
    places = Places()
    tokens = _TOKEN.finditer(text)
    _inside(next(tokens), tokens, places, ())
    return places


def path_text(path: Path) -> str:
    """A path as text, such as ``plugins[1].capabilities``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _inside(first: re.Match[str], tokens: Iterator[re.Match[str]], places: Places, path: Path) -> None:
    """Read the rest of the value that ``first`` begins."""
    match first[1]:
        case "{":
            _members(tokens, places, path)
        case "[":
            _items(tokens, places, path)


def _members(tokens: Iterator[re.Match[str]], places: Places, path: Path) -> None:
    for token in tokens:
        if token[1] == "}":
            return
        if token[1] == ",":
            continue
        name: str = json.loads(token[1])
        member, place = (*path, name), _place(token)
        if member in places.by_path:
            places.repeated.append((member, place))
            places.forget(member)
        places.by_path[member] = place
        next(tokens)  # the colon
        _inside(next(tokens), tokens, places, member)


def _items(tokens: Iterator[re.Match[str]], places: Places, path: Path) -> None:
    index = 0
    for token in tokens:
        if token[1] == "]":
            return
        if token[1] == ",":
            continue
        item = (*path, index)
        index += 1
        places.by_path[item] = _place(token)
        _inside(token, tokens, places, item)


def _place(token: re.Match[str]) -> Place:
    text, offset = token.string, token.start(1)
    return Place(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))
