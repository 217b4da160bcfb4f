"""The steps of a path to a field, in the form in which ``FieldsV1`` writes them. Pure.

``f:NAME`` is a field, ``k:{…}`` the item of a list with these keys, ``v:VALUE`` the item of a set, ``i:INDEX`` an item
by its place. The text is canonical, so that two steps are the same if their texts are.

Source: structured-merge-diff v6 ``fieldpath/element.go``, ``fieldpath/serialize-pe.go``, ``value/value.go``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any, Final, TypeAlias, TypeVar

Element: TypeAlias = str
Path: TypeAlias = tuple[Element, ...]

FIELD: Final = "f:"
KEY: Final = "k:"
VALUE: Final = "v:"
INDEX: Final = "i:"
_KINDS: Final = (FIELD, KEY, VALUE, INDEX)
_LEAST_WITH_EXPONENT: Final = 1e21
_ESCAPED: Final = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}
_CACHED: Final = 4096
_LONGEST_CACHED: Final = 256
_Result = TypeVar("_Result")


def _remembered(function: Callable[[str], _Result]) -> Callable[[str], _Result]:
    """``function`` with a memory for texts that are not long: most steps come again and again."""
    remembering = lru_cache(_CACHED)(function)

    @wraps(function)
    def answer(text: str) -> _Result:
        return remembering(text) if len(text) <= _LONGEST_CACHED else function(text)

    return answer


class UnreadableElement(ValueError):
    """A step that cannot be read; its text says why."""


def field(name: str) -> Element:
    return FIELD + name


def key(fields: Mapping[str, object]) -> Element:
    return f"{KEY}{{{','.join(f'{_quoted(name)}:{_json(fields[name])}' for name in sorted(fields))}}}"


def value(of: object) -> Element:
    return VALUE + _json(of)


@_remembered
def read_element(text: str) -> Element | None:
    """The canonical form of ``text``; None for a kind of step that is not known, which is to be left out.

    Raises:
        UnreadableElement: ``text`` cannot be read as one.
    """
    if len(text) < len(FIELD) or text[1] != ":":
        raise UnreadableElement(f"missing colon: {text!r}")
    kind, rest = text[:2], text[2:]
    if kind not in _KINDS:
        return None
    if kind == FIELD:
        return text
    if kind == INDEX:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", rest):
            raise UnreadableElement(f"not an index: {text!r}")
        return f"{INDEX}{int(rest)}"
    read = _value_in(rest)
    if kind == VALUE:
        return value(read)
    if not isinstance(read, dict | None):
        raise UnreadableElement(f"not an object: {text!r}")
    return key(read or {})


def name_of(element: Element) -> str:
    """The name of the field that it is; empty for another step."""
    return element[2:] if element.startswith(FIELD) else ""


@_remembered
def element_text(element: Element) -> str:
    """``.name``, ``[name="x"]``, ``[="x"]`` or ``[0]``, as errors write it."""
    kind, rest = element[:2], element[2:]
    if kind == FIELD:
        return f".{rest}"
    if kind == INDEX:
        return f"[{rest}]"
    if kind == VALUE:
        return f"[={_shown(json.loads(rest))}]"
    return f"[{','.join(f'{name}={_shown(each)}' for name, each in json.loads(rest).items())}]"


def path_text(path: Path) -> str:
    return "".join(map(element_text, path))


@_remembered
def element_order(element: Element) -> tuple[Any, ...]:
    """The place of a step among others."""
    kind, rest = element[:2], element[2:]
    if kind == FIELD:
        return 0, rest.encode(errors="surrogatepass")
    if kind == KEY:
        return 1, tuple((name.encode(errors="surrogatepass"), _rank(each)) for name, each in json.loads(rest).items())
    if kind == VALUE:
        return 2, _rank(json.loads(rest))
    return 3, int(rest)


def _rank(of: object) -> tuple[Any, ...]:
    """Numbers before texts before booleans before lists before mappings before null."""
    match of:
        case bool():
            return 2, of
        case int() | float():
            return 0, of
        case str():
            return 1, of.encode(errors="surrogatepass")
        case list():
            return 3, tuple(map(_rank, of))
        case dict():
            return 4, tuple((name.encode(errors="surrogatepass"), _rank(of[name])) for name in sorted(of))
        case _:
            return (5,)


def _shown(of: object) -> str:
    """A value as Go's ``%v`` writes it, texts in quotes."""
    match of:
        case bool():
            return str(of).lower()
        case str():
            return json.dumps(of, ensure_ascii=False)
        case list():
            return f"[{','.join(map(_shown, of))}]"
        case dict():
            return "".join(f"{name}={_shown(each)}" for name, each in of.items())
        case None:
            return "null"
        case _:
            return str(of)


def _json(of: object) -> str:
    """The canonical text of a value; most are texts or integers, which are written without more ado."""
    match of:
        case str():
            return _quoted(of)
        case int() if not isinstance(of, bool):
            return str(of)
    text = json.dumps(_whole(of), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.translate(_ESCAPED)


@_remembered
def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).translate(_ESCAPED)


def _whole(of: object) -> object:
    """``of``, with numbers that have no fraction as integers: 1.0 is 1."""
    match of:
        case float() if of.is_integer() and abs(of) < _LEAST_WITH_EXPONENT:
            return int(of)
        case list():
            return [_whole(each) for each in of]
        case dict():
            return {name: _whole(each) for name, each in of.items()}
    return of


def _value_in(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableElement(f"{text[:80]!r} is not JSON: {error}") from None
