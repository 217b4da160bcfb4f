"""The JSONPath that ``--for`` takes: one value of an object. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from plugbay.errors import UsageError

_STEP: Final = re.compile(
    r"""\.(?P<name>(?:[^.\[\]\\{}]|\\.)+)
      | \[(?P<index>-?\d+)\]
      | \['(?P<quoted>(?:[^'\\]|\\.)+)'\]
      | \[\?\(\s*@\.(?P<key>[\w.]+)\s*==\s*["'](?P<value>[^"']*)["']\s*\)\]""",
    re.VERBOSE,
)
_ABSENT: Final = object()


class _Where(tuple[str, str]):
    """The first item of a list whose field has a value: ``[?(@.type=="Ready")]``."""


Step: TypeAlias = str | int | _Where
JsonPath: TypeAlias = tuple[Step, ...]


def parse_jsonpath(text: str) -> JsonPath:
    """``{.status.containerStatuses[0].ready}``; the braces and the first dot may be missing, as kubectl has it.

    Raises:
        UsageError: it is no path, or one of those that kubectl knows and we do not.
    """
    bare = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    steps = tuple(_steps(bare if bare.startswith((".", "[")) else f".{bare}", text))
    return steps


def find(value: object, path: JsonPath) -> str | None:
    """The value at ``path``, as text: ``true``, ``8080``, ``Running``; None if it is not there."""
    for step in path:
        value = _follow(value, step)
    if value is _ABSENT or value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value)


def _steps(bare: str, text: str) -> Iterator[Step]:
    at = 0
    while at < len(bare):
        match = _STEP.match(bare, at)
        if match is None:
            raise UsageError(
                f"{text!r} is no JSONPath we know, such as {{.status.phase}} or {{.status.conditions[0].type}}"
            )
        at = match.end()
        if match["index"]:
            yield int(match["index"])
        elif match["key"]:
            yield _Where((match["key"], match["value"]))
        else:
            yield re.sub(r"\\(.)", r"\1", match["name"] or match["quoted"])


def _follow(value: object, step: Step) -> object:
    match step, value:
        case int(), list() if -len(value) <= step < len(value):
            return value[step]
        case _Where(), list():
            key, wanted = step
            return next((item for item in value if find(item, tuple(key.split("."))) == wanted), _ABSENT)
        case str(), dict():
            return value.get(step, _ABSENT)
        case _:
            return _ABSENT
