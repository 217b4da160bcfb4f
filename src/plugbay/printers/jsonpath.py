"""JSONPath, as far as ``--for`` and ``-o jsonpath`` know it: values of an object. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, TypeAlias

from plugbay.errors import UsageError

_STEP: Final = re.compile(
    r"""\.(?P<name>(?:[^.\[\]\\{}]|\\.)+)
      | \[(?P<index>-?[0-9]{1,18})\]
      | (?P<every>\[\*\])
      | \['(?P<quoted>(?:[^'\\]|\\.)+)'\]
      | \[\?\(\s*@\.(?P<key>[\w.]+)\s*==\s*["'](?P<value>[^"']*)["']\s*\)\]""",
    re.VERBOSE,
)


class _Where(tuple[str, str]):
    """The items of a list whose field has a value: ``[?(@.type=="Ready")]``."""


class _Every(Enum):
    """All items of a list, or all values of an object."""

    ITEM = "[*]"


Step: TypeAlias = str | int | _Where | _Every
JsonPath: TypeAlias = tuple[Step, ...]


def parse_jsonpath(text: str) -> JsonPath:
    """``{.status.containerStatuses[0].ready}``, which leads to one value.

    The braces and the first dot may be missing, as kubectl has it.

    Raises:
        UsageError: it is not a path, or one that kubectl knows and plugbay does not.
    """
    path = parse_path(text[1:-1] if text.startswith("{") and text.endswith("}") else text)
    if _Every.ITEM in path:
        raise UsageError(
            f"{text!r} is not a JSONPath that plugbay knows here, where it has to lead to one value: it has [*]"
        )
    return path


def parse_path(text: str) -> JsonPath:
    """Read a path such as ``.items[*].metadata.name``; the first dot may be missing.

    Raises:
        UsageError: it is not a path, or one that kubectl knows and plugbay does not.
    """
    return tuple(_steps(text if text.startswith((".", "[")) else f".{text}", text))


def find(value: object, path: JsonPath) -> str | None:
    """The value at ``path``, as text: ``true``, ``8080``, ``Running``; None if it is not there."""
    for found in find_all(value, path):
        return found if isinstance(found, str) else json.dumps(found)
    return None


def find_all(value: object, path: JsonPath) -> list[object]:
    """All values at ``path``, in order, without those that are null."""
    found = [value]
    for step in path:
        found = [below for each in found for below in _follow(each, step)]
    return [each for each in found if each is not None]


def _steps(bare: str, text: str) -> Iterator[Step]:
    at = 0
    while at < len(bare):
        match = _STEP.match(bare, at)
        if match is None:
            raise UsageError(
                f"{text!r} is not a JSONPath that plugbay knows, such as {{.status.phase}} or "
                "{.status.conditions[0].type}"
            )
        at = match.end()
        if match["every"]:
            yield _Every.ITEM
        elif match["index"]:
            yield int(match["index"])
        elif match["key"]:
            yield _Where((match["key"], match["value"]))
        else:
            yield re.sub(r"\\(.)", r"\1", match["name"] or match["quoted"])


def _follow(value: object, step: Step) -> Iterable[object]:
    match step, value:
        case int(), list() if -len(value) <= step < len(value):
            return [value[step]]
        case _Where(), list():
            key, wanted = step
            return [item for item in value if find(item, tuple(key.split("."))) == wanted]
        case _Every.ITEM, list():
            return value
        case _Every.ITEM, dict():
            return value.values()
        case str(), dict() if step in value:
            return [value[step]]
        case _:
            return []
