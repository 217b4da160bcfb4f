"""JSON as Go programs read it, and as plugins are given it: pure."""

from __future__ import annotations

import json
import math
from typing import Final, NoReturn, TypeAlias

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Object: TypeAlias = "dict[str, Json]"

_ESCAPED_BY_GO: Final = "<>&\u2028\u2029"
_WRITTEN_OUT: Final = 1e21
"""From here on Go writes numbers with an exponent."""
_DEEPEST: Final = 200
"""Beyond every real configuration, and below what Python can write again without running out of stack."""


class NotJson(ValueError):
    """The text is no JSON; ``line`` and ``column`` are 1-based, None when there is no one place."""

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(problem)
        self.line = line
        self.column = column


def parse(content: bytes) -> Json:
    """The JSON value that is all of ``content``. What is no UTF-8 reads as U+FFFD, as in Go.

    A number without a fraction is an integer however it is written, as it is when Go writes it again: a plugin that
    wants an integer takes no ``1500.0``.

    Raises:
        NotJson: not JSON, or nested too deep.
    """
    if not content.strip():
        raise NotJson("is empty")
    try:
        value: Json = json.loads(content.decode(errors="replace"), parse_float=_number, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise NotJson(f"not JSON: {_lower_first(error.msg)}", error.lineno, error.colno) from None
    except RecursionError:
        raise NotJson("values are nested too deep") from None
    except NotJson:
        raise
    except ValueError:  # an integer that Python refuses to convert
        raise NotJson("not JSON that can be used: a number has thousands of digits") from None
    if _depth_exceeds(value, _DEEPEST):
        raise NotJson("values are nested too deep")
    return value


def encode(value: Json) -> bytes:
    """``value`` on one line with sorted keys, as Go writes maps; never fails for what `parse` gave."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def encode_as_go(value: Object) -> bytes:
    """``value`` to the byte as Go writes a structure with members in that order: everything in it has sorted keys."""
    members = (f"{json.dumps(name)}:{_go_text(each)}" for name, each in value.items())
    return f"{{{','.join(members)}}}".encode()


def _go_text(value: Json) -> str:
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, of which Go would have nothing left
        text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    for character in _ESCAPED_BY_GO:
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def member(value: Object, name: str) -> Json:
    """The member of that name; when there is none, the last whose name differs only in case; None without either.

    Go reads into its structures like this, and engines rely on it.
    """
    if name in value:
        return value[name]
    wanted = name.lower()
    return next((each for key, each in reversed(value.items()) if folded(key) == wanted), None)


def folded(name: str) -> str:
    """``name`` in the form in which Go compares names of members without regard to case."""
    # Of the characters that are not ASCII, Go folds two to ASCII letters.
    return name.replace("\u017f", "s").replace("\u212a", "k").lower()


def kind(value: Json) -> str:
    """What ``value`` is, for a sentence."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return "a text"
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case _:
            return "a number"


def _depth_exceeds(value: Json, limit: int) -> bool:
    level: list[Json] = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _number(literal: str) -> int | float:
    value = float(literal)
    if math.isinf(value):
        raise NotJson(f"not JSON that can be used: {literal[:40]} is too large")
    return int(value) if value.is_integer() and abs(value) < _WRITTEN_OUT else value


def _refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"not JSON: {name} is not a valid number")


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
