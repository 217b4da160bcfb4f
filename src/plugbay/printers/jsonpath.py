"""JSONPath, as far as ``--for``, ``-o jsonpath`` and columns of custom resources know it: values of an object. Pure.

Source: client-go 1.36 ``util/jsonpath``.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from plugbay.errors import UsageError
from plugbay.values import dataclass

_QUOTED: Final = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_STEP: Final = re.compile(
    rf"""(?P<descent>\.\.)(?=[^.])
      | \.(?P<name>\*|(?:[^.\[\]\\{{}}]|\\.)+)
      | \[\?\((?P<filter>(?:[^"')]|{_QUOTED})+)\)\]
      | \[(?P<inside>(?:[^\[\]"']|{_QUOTED})+)\]""",
    re.VERBOSE,
)
_BELOW: Final = re.compile(r"(?:[^.\[\]\\{}]|\\.)+")
"""The name after ``..``, which needs no dot of its own."""
_TEXT: Final = re.compile(_QUOTED)
_MEMBER: Final = re.compile(rf"(?:{_QUOTED}|[^,\"'])+")
_INDEX: Final = re.compile(r"-?[0-9]{1,18}")
_SLICE: Final = re.compile(r"(-?[0-9]{1,18})?:(-?[0-9]{1,18})?(?::(-?[0-9]{1,18})?)?")
_COMPARISON: Final = re.compile(r"(?P<left>[^!<>=]+)(?P<operator>[!<>=]+)(?P<right>.+)", re.DOTALL)
_NUMBER: Final = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?")
_ESCAPE: Final = re.compile(r"\\(.)")
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MOST_CHARACTERS: Final = 1024
_MOST_BRANCHES: Final = 64
"""The most ways that unions in one path, or in one of a filter, lead to together: each union multiplies them."""


class _Every(Enum):
    """All items of a list, or all values of an object."""

    ITEM = "[*]"


class _Descent(Enum):
    """A value, and all lists and objects in it."""

    ANYWHERE = ".."


@dataclass(frozen=True, slots=True)
class _Slice:
    """Some items of a list: ``[-2:]``."""

    first: int | None
    end: int | None
    step: int


@dataclass(frozen=True, slots=True)
class _Union:
    """The values that several paths lead to: ``['name','kind']``."""

    members: tuple[JsonPath, ...]


@dataclass(frozen=True, slots=True)
class _Filter:
    """The items of a list that have a value, or whose value compares: ``[?(@.type=="Ready")]``."""

    left: JsonPath
    operator: str = ""
    right: JsonPath | _Literal | None = None


@dataclass(frozen=True, slots=True)
class _Literal:
    value: str | float | bool


Step: TypeAlias = "str | int | _Filter | _Every | _Descent | _Slice | _Union"
JsonPath: TypeAlias = "tuple[Step, ...]"


def parse_jsonpath(text: str) -> JsonPath:
    """``{.status.containerStatuses[0].ready}``, which leads to one value.

    The braces and the first dot may be missing, as kubectl has it.

    Raises:
        UsageError: it is not a path, or one that kubectl knows and plugbay does not.
    """
    path = parse_path(text[1:-1] if text.startswith("{") and text.endswith("}") else text)
    if any(isinstance(step, _Every | _Descent | _Slice | _Union) for step in path):
        raise UsageError(
            f"{text!r} is not a JSONPath that plugbay knows here, where it has to lead to one value: it has [*], .., a "
            "range or a union"
        )
    return path


def parse_path(text: str) -> JsonPath:
    """Read a path such as ``.items[*].metadata.name``; the first dot may be missing.

    Raises:
        UsageError: it is not a path, or one that kubectl knows and plugbay does not.
    """
    if len(text) > _MOST_CHARACTERS:
        raise _unknown(f"{text[:_MOST_CHARACTERS]}...")
    return _parsed(text if text.startswith((".", "[")) else f".{text}", text)


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


# --- reading --------------------------------------------------------------------------------------------------------


def _unknown(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is not a JSONPath that plugbay knows, such as {{.status.phase}} or {{.status.conditions[0].type}}"
    )


def _parsed(bare: str, text: str) -> JsonPath:
    steps: list[Step] = []
    at = 0
    while at < len(bare):
        match = _STEP.match(bare, at)
        if match is None:
            raise _unknown(text)
        at = match.end()
        if match["descent"]:
            steps.append(_Descent.ANYWHERE)
            if below := _BELOW.match(bare, at):
                at = below.end()
                steps.append(_Every.ITEM if below[0] == "*" else _unescaped(below[0]))
        elif match["name"]:
            steps.append(_Every.ITEM if match["name"] == "*" else _unescaped(match["name"]))
        elif match["filter"]:
            steps.append(_filter(match["filter"], text))
        else:
            steps.append(_in_brackets(match["inside"], text))
    branches = math.prod(len(step.members) for step in steps if isinstance(step, _Union))
    if branches > _MOST_BRANCHES or steps.count(_Descent.ANYWHERE) > 1:
        raise _unknown(text)  # it could lead to more values than there is memory for
    return tuple(steps)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(r"\1", text)


def _in_brackets(inside: str, text: str) -> Step:
    members = [each.strip() for each in _MEMBER.findall(inside)]
    if len(members) > 1:
        return _Union(tuple((_in_brackets(each, text),) for each in members))
    inside = inside.strip()
    if inside == "*":
        return _Every.ITEM
    if _INDEX.fullmatch(inside):
        return int(inside)
    if found := _SLICE.fullmatch(inside):
        first, end, step = (int(each) if each else None for each in found.groups())
        if step is not None and step <= 0:
            raise _unknown(text)
        return _Slice(first, end, step or 1)
    if _TEXT.fullmatch(inside) and len(inside) > 2:
        return _unescaped(inside[1:-1])
    raise _unknown(text)


def _filter(inside: str, text: str) -> _Filter:
    found = _COMPARISON.fullmatch(inside)
    if found is None:
        return _Filter(_of_item(inside, text))
    if found["operator"] not in _OPERATORS:
        raise _unknown(text)
    return _Filter(_of_item(found["left"], text), found["operator"], _operand(found["right"], text))


def _of_item(expression: str, text: str) -> JsonPath:
    """A path from the item that is looked at, which is ``@``."""
    expression = expression.strip()
    if not expression.startswith("@"):
        raise _unknown(text)
    return _parsed(expression[1:], text)


def _operand(expression: str, text: str) -> JsonPath | _Literal:
    expression = expression.strip()
    if _TEXT.fullmatch(expression):
        return _Literal(_unescaped(expression[1:-1]))
    if expression in ("true", "false"):
        return _Literal(expression == "true")
    if _NUMBER.fullmatch(expression):
        return _Literal(float(expression))
    return _of_item(expression, text)


# --- following ------------------------------------------------------------------------------------------------------


def _follow(value: object, step: Step) -> Iterable[object]:
    match step, value:
        case int(), list() if -len(value) <= step < len(value):
            return [value[step]]
        case _Slice(), list():
            return _sliced(value, step)
        case _Filter(), list():
            return [item for item in value if _holds(item, step)]
        case _Every.ITEM, list():
            return value
        case _Every.ITEM, dict():
            return value.values()
        case _Descent.ANYWHERE, list() | dict():
            return _anywhere(value)
        case _Union(members), _:
            return [found for path in members for found in find_all(value, path)]
        case str(), dict() if step in value:
            return [value[step]]
        case _:
            return []


def _sliced(items: list[object], part: _Slice) -> list[object]:
    """The items of a slice; none if it goes beyond the list, which is an error to Kubernetes."""
    size = len(items)
    first = part.first or 0
    first += size if first < 0 else 0
    end = size if part.end is None else part.end
    end += size if end < 0 else 0
    return items[first : end : part.step] if 0 <= first <= end <= size else []


def _anywhere(value: object) -> Iterator[object]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        inner = list(each.values()) if isinstance(each, dict) else each
        if isinstance(inner, list) and inner:
            yield each
            waiting += reversed(inner)


def _holds(item: object, condition: _Filter) -> bool:
    found = find_all(item, condition.left)
    if not condition.operator:
        return bool(found)
    right = condition.right
    if isinstance(right, tuple):
        compared = find_all(item, right)
        return len(found) == len(compared) == 1 and _compares(found[0], condition.operator, compared[0])
    assert right is not None
    return len(found) == 1 and _compares(found[0], condition.operator, right.value)


def _compares(left: object, name: str, right: object) -> bool:
    """Compare two values of one kind; of others, their texts are equal or not."""
    if not (_is_number(left) and _is_number(right)) and type(left) is not type(right):
        left, right = _text(left), _text(right)
        return name in ("==", "!=") and _OPERATORS[name](left, right)
    return not isinstance(left, list | dict) and bool(_OPERATORS[name](left, right))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
