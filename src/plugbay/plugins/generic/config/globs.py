"""Patterns of paths by the rules of Go's ``path.Match`` and ``fs.Glob``, as the other plugin reads them. Pure.

Source: Go 1.24 ``path/match.go``, ``io/fs/glob.go``.
"""

from __future__ import annotations

import posixpath
import re
from re import Pattern
from typing import Final

from plugbay.values import dataclass

_META: Final = re.compile(r"[*?\[\\]")


@dataclass(frozen=True, slots=True)
class GlobProblem:
    """A text that is not a pattern; ``text`` is a sentence, and ``offset`` that of the character, from 0 on."""

    text: str
    offset: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A pattern of one name between slashes.

    Attributes:
        prefix: the characters with which every match begins.
        regex: matches whole names; None if only ``prefix`` itself matches.
    """

    prefix: str
    regex: Pattern[str] | None

    def matches(self, name: str) -> bool:
        """Whether a name, which has no slash, matches."""
        return name == self.prefix if self.regex is None else self.regex.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Glob:
    """An absolute pattern.

    Attributes:
        text: in its shortest form, without ``//``, ``.`` and ``..``.
        base: the path itself if the pattern is one; else the directory below which `segments` are looked for.
        segments: from the first one with a pattern on.
    """

    text: str
    base: str
    segments: tuple[Segment, ...]

    @property
    def is_literal(self) -> bool:
        """Whether it names one path, which is then looked up, and not searched in a listing."""
        return not self.segments

    def matches(self, path: str) -> bool:
        """Whether an absolute path in its shortest form would match if it existed."""
        if self.is_literal:
            return path == self.text
        above = self.base.rstrip("/") + "/"
        if not path.startswith(above):
            return False
        names = path[len(above) :].split("/")
        return len(names) == len(self.segments) and all(
            segment.matches(name) for segment, name in zip(self.segments, names, strict=True)
        )

    def is_touched_by(self, path: str) -> bool:
        """Whether a file that comes or goes at ``path`` may be a match, or a directory on the way to one."""
        if (self.base + "/").startswith(path.rstrip("/") + "/"):
            return True
        above = self.base.rstrip("/") + "/"
        if self.is_literal or not path.startswith(above):
            return False
        names = path[len(above) :].split("/")
        return len(names) <= len(self.segments) and all(map(Segment.matches, self.segments, names))


def parse_glob(text: str) -> Glob | GlobProblem:
    """Read a pattern: ``*`` and ``?`` within a name, ``[a-z]``, ``[^a-z]``, and a backslash before a character."""
    if not text.startswith("/"):
        return GlobProblem("a path of the host begins with /", 0)
    clean = "/" + posixpath.normpath(text).lstrip("/")
    if not _META.search(clean):
        return Glob(clean, clean, ())
    names = clean[1:].split("/")
    first = next(index for index, name in enumerate(names) if _META.search(name))
    segments: list[Segment] = []
    for name in names[first:]:
        segment = _segment_of(name)
        if isinstance(segment, GlobProblem):
            return GlobProblem(segment.text, max(text.find(name), 0) + segment.offset)
        segments.append(segment)
    return Glob(clean, "/" + "/".join(names[:first]), tuple(segments))


def _segment_of(text: str) -> Segment | GlobProblem:
    prefix, parts, at = "", [], 0
    is_literal = True
    while at < len(text):
        character = text[at]
        if character in "*?":
            parts.append(".*" if character == "*" else ".")
            is_literal, at = False, at + 1
        elif character == "[":
            found = _class_of(text, at)
            if isinstance(found, GlobProblem):
                return found
            part, at = found
            parts.append(part)
            is_literal = False
        else:
            if character == "\\":
                at += 1
                if at == len(text):
                    return GlobProblem("a backslash needs a character behind it", at - 1)
            if is_literal:
                prefix += text[at]
            parts.append(re.escape(text[at]))
            at += 1
    return Segment(prefix, None if is_literal else re.compile("".join(parts), re.DOTALL))


def _class_of(text: str, start: int) -> tuple[str, int] | GlobProblem:
    """The regular expression of a class that begins at ``start``, and where the pattern goes on."""
    at = start + 1
    is_negated = text[at : at + 1] == "^"
    at += is_negated
    ranges: list[tuple[str, str]] = []
    while text[at : at + 1] != "]" or not ranges:
        found = _character_of(text, at, start)
        if isinstance(found, GlobProblem):
            return found
        low, at = found
        high = low
        if text[at : at + 1] == "-":
            found = _character_of(text, at + 1, start)
            if isinstance(found, GlobProblem):
                return found
            high, at = found
        ranges.append((low, high))
    inside = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in ranges if low <= high)
    if not inside:  # ranges that hold nothing, such as z-a
        return ("." if is_negated else "(?!)"), at + 1
    return f"[{'^' if is_negated else ''}{inside}]", at + 1


def _character_of(text: str, at: int, start: int) -> tuple[str, int] | GlobProblem:
    """A character of the class that begins at ``start``; more of the class has to follow."""
    if text[at : at + 1] in ("-", "]"):
        return GlobProblem(f"a backslash has to stand before this {text[at]} in a class", at)
    if text[at : at + 1] == "\\":
        at += 1
    if at + 1 >= len(text):
        return GlobProblem("this [ has no ] behind it; a bracket itself is \\[", start)
    return text[at], at + 1
