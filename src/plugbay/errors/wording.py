"""Write names, values and places in an error's sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"
}  # fmt: skip
_SHOWN_CHARACTERS: Final = 100
_SHOWN_DEVICES: Final = 8


def quote(text: str) -> str:
    """``text`` in double quotes, escaped as Go's ``%q`` does.

    A byte that is not UTF-8 may stand in ``text`` as ``surrogateescape`` decodes it.

    Source: Go 1.24 ``strconv/quote.go``. Which characters are printable is decided by Python's Unicode version.
    """
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if 0xD800 <= code <= 0xDFFF:
        return "\\ufffd"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def printable(text: str) -> str:
    """``text`` without the characters by which a message could take over a terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)


def on_one_line(text: str) -> str:
    """``text`` as `printable` has it, with line ends and tabs escaped as well."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def located(problem: str, *, field: str, line: int | None, source: str) -> str:
    """``problem`` behind its place: ``pod.yaml:3: spec.containers[0]: is wrong``."""
    where = source if line is None else f"{source}:{line}"
    return f"{where}: {field}: {problem}" if field else f"{where}: {problem}"


def clipped(text: str, limit: int) -> str:
    """``text``, or its beginning and the length of the rest: a plugin's error may be as long as a message."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def called(hook: str, devices: Sequence[str]) -> str:
    """A call of an author's ``hook`` about ``devices``, or the first of them: there may be thousands."""
    some = devices[:_SHOWN_DEVICES]
    rest = f", and {len(devices) - len(some)} more" if len(devices) > len(some) else ""
    return f"{hook}({', '.join(some)}{rest})"


def shown(value: object) -> str:
    """``value`` in Python's notation, or the beginning of that: authors may hand us whole files."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
