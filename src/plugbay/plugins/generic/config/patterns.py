"""Patterns of paths, with Go's rules, as far as a config can be wrong about them. Pure.

Source: Go 1.26 ``path.Match`` and ``filepath.Glob``.
"""

from __future__ import annotations

from plugbay.plugins.generic.config.problems import short


def pattern_problem(pattern: str) -> str:
    """A sentence that says why no file can match; empty for a sound pattern."""
    at = 0
    while at < len(pattern):
        match pattern[at]:
            case "\\":
                if at + 1 == len(pattern):
                    return f"{short(pattern)}: the backslash at its end has no character to escape"
                at += 2
            case "[":
                end = _class_end(pattern, at)
                if end is None:
                    return f"{short(pattern)}: its [ is never closed, or has nothing in it; write \\[ for the character"
                at = end
            case _:
                at += 1
    return ""


def host_path_problem(path: str) -> str:
    """A sentence that says why the text is not a path of the host or a pattern of such; empty for one that is."""
    if not path:
        return "is empty; write a path such as /dev/ttyUSB*"
    if not path.startswith("/"):
        return f"{short(path)} is not a path from the root; write it with a / in front"
    if not path.isprintable():
        return f"{short(path)} holds characters that cannot be printed"
    return pattern_problem(path)


def container_path_problem(path: str) -> str:
    """A sentence that says why the text is not a path in a container; empty for one that is."""
    if path and not path.startswith("/"):
        return f"{short(path)} is not a path from the root of the container; write it with a / in front"
    if not path.isprintable():
        return f"{short(path)} holds characters that cannot be printed"
    return ""


def _class_end(pattern: str, at: int) -> int | None:
    """The place behind the class of characters that begins at ``at``; None for one that Go refuses."""
    at += 1
    if pattern[at : at + 1] == "^":
        at += 1
    ranges = 0
    while True:
        if pattern[at : at + 1] == "]" and ranges:
            return at + 1
        first = _class_character(pattern, at)
        if first is None:
            return None
        at = first
        if pattern[at : at + 1] == "-":
            last = _class_character(pattern, at + 1)
            if last is None:
                return None
            at = last
        ranges += 1


def _class_character(pattern: str, at: int) -> int | None:
    """The place behind a character of a class; ``]`` and ``-`` are characters only behind a backslash."""
    if pattern[at : at + 1] == "\\":
        at += 1
    elif pattern[at : at + 1] in ("-", "]"):
        return None
    return at + 1 if at + 1 < len(pattern) else None
