"""JSON values that can be kept and shown again to any client. Pure.

Python's own reader takes more: halves of surrogate pairs, which are not UTF-8 in the answer, numbers without end, and
any depth that its stack has room for.

Source: Go 1.24 ``encoding/json`` (numbers); Kubernetes 1.36 ``sigs.k8s.io/json`` (duplicate fields).
"""

from __future__ import annotations

import json
from typing import Final

MAX_DEPTH: Final = 200
"""Objects and lists within each other. The deepest field of the API has a tenth; what works on values recurses."""


class UnsoundJson(ValueError):
    """A text or a value that is no JSON that can be kept; its text says why."""


def read_json(content: bytes) -> object:
    """Read one JSON value; of a member that stands twice the last one counts.

    Raises:
        UnsoundJson: ``content`` is not JSON, or JSON that cannot be kept.
    """
    try:
        value = json.loads(content.decode(), parse_constant=_refuse_constant)
    except RecursionError:
        raise UnsoundJson("it is nested too deep") from None
    except ValueError as error:
        raise UnsoundJson(str(error)) from None
    check_json(value)
    return value


def check_json(value: object) -> None:
    """Check a value that was read by other means.

    Raises:
        UnsoundJson: it cannot be kept.
    """
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [each for outer in level for each in _members(outer) if isinstance(each, dict | list)]
        if not level:
            break
    else:
        raise UnsoundJson(f"it is nested too deep: more than {MAX_DEPTH} levels")
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnsoundJson("a text has half of a surrogate pair") from None
    except ValueError:
        raise UnsoundJson("a number is too large, or is not a number") from None


def repeated_fields(content: bytes) -> tuple[str, ...]:
    """The paths of members that stand twice in one object of a text that `read_json` reads."""
    seen: list[tuple[dict[str, object], tuple[str, ...]]] = []

    def keep(pairs: list[tuple[str, object]]) -> dict[str, object]:
        read = dict(pairs)
        if len(read) != len(pairs):
            names = [name for name, _ in pairs]
            seen.append((read, tuple(name for name in read if names.count(name) > 1)))
        return read

    value = json.loads(content.decode(), object_pairs_hook=keep)
    if not seen:
        return ()
    names = {id(read): repeated for read, repeated in seen}
    found: list[str] = []
    places = [("", value)]
    while places:
        path, outer = places.pop()
        if isinstance(outer, dict):
            found += (_below(path, name) for name in names.get(id(outer), ()))
            places += ((_below(path, name), each) for name, each in outer.items())
        elif isinstance(outer, list):
            places += ((f"{path}[{index}]", each) for index, each in enumerate(outer))
    return tuple(sorted(found))


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _members(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
