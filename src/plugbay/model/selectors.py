"""Label selectors, as in ``-l`` and ``labelSelector``. Pure.

Source: apimachinery 1.36 ``pkg/labels/selector.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, TypeAlias

from plugbay.errors import UsageError
from plugbay.model.dns import is_name, is_subdomain
from plugbay.values import dataclass

_TOKEN: Final = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_SYMBOLS: Final = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">", ""})
_END: Final = ""
_INTEGER: Final = re.compile(r"[0-9]{1,18}")


class Operator(Enum):
    """A condition on a label; a missing label also meets ``!=`` and ``notin``."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER = ">"
    LESS = "<"


_OPERATORS: Final = {
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels
            case Operator.GREATER | Operator.LESS:
                return self._compares(labels.get(self.key, ""))

    def _compares(self, value: str) -> bool:
        if not _INTEGER.fullmatch(value):
            return False
        (bound,) = map(int, self.values)
        return int(value) > bound if self.operator is Operator.GREATER else int(value) < bound


Selector: TypeAlias = tuple[Requirement, ...]
"""All conditions have to hold; without any, everything is selected."""


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    return all(requirement.holds(labels) for requirement in selector)


def parse_selector(text: str) -> Selector:
    """Read ``app=web,tier!=test,zone in (a,b),gpu,!old,count>3``; an empty text selects everything.

    Raises:
        UsageError: the text is not a selector.
    """
    words = _Words(text)
    requirements: list[Requirement] = []
    while words.ahead or requirements:
        requirements.append(_requirement(words))
        if words.ahead != ",":
            break
        words.take()
    if words.ahead:
        raise words.unlike("a comma or the end")
    return tuple(requirements)


class _Words:
    """The tokens of a selector, with a current one; after the last token it stays at `_END`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: Iterator[str] = (match[1] for match in _TOKEN.finditer(text))
        self.ahead = next(self._tokens, _END)

    def take(self) -> str:
        taken, self.ahead = self.ahead, next(self._tokens, _END)
        return taken

    def take_name(self) -> str:
        """Take a key or a value: a token that is not a sign."""
        if self.ahead in _SYMBOLS:
            raise self.unlike("a label")
        return self.take()

    def unlike(self, wanted: str) -> UsageError:
        return self.wrong(f"it wants {wanted} where it {f'has {self.ahead!r}' if self.ahead else 'ends'}")

    def wrong(self, problem: str) -> UsageError:
        return UsageError(f"{self._text!r} is not a label selector such as app=web,tier!=test: {problem}")


def _requirement(words: _Words) -> Requirement:
    if words.ahead == "!":
        words.take()
        return Requirement(_key(words), Operator.DOES_NOT_EXIST)
    key = _key(words)
    if words.ahead in (",", _END):
        return Requirement(key, Operator.EXISTS)
    if words.ahead not in _OPERATORS:
        raise words.unlike("an operator (=, ==, !=, in, notin, < or >)")
    sign = words.take()
    values = _set(words) if sign in ("in", "notin") else frozenset({_value(words)})
    operator = _OPERATORS[sign]
    for value in values:
        if operator in (Operator.GREATER, Operator.LESS):
            if not _INTEGER.fullmatch(value):
                raise words.wrong(f"{sign} wants a whole number, found {value!r}")
        elif value and not is_name(value):
            raise words.wrong(f"no label has the value {value!r}")
    return Requirement(key, operator, values)


def _key(words: _Words) -> str:
    key = words.take_name()
    prefix, slash, name = key.rpartition("/")
    if not is_name(name) or (slash and not is_subdomain(prefix)):
        raise words.wrong(f"no label is called {key!r}")
    return key


def _set(words: _Words) -> frozenset[str]:
    """Take ``(a,b)``; a missing value between two commas is the empty value."""
    if words.ahead != "(":
        raise words.unlike("values in parentheses")
    words.take()
    if words.ahead == ")":
        raise words.wrong("there is no value between its parentheses")
    values = {_value(words)}
    while words.ahead == ",":
        words.take()
        values.add(_value(words))
    if words.ahead != ")":
        raise words.unlike("a comma or a closing parenthesis")
    words.take()
    return frozenset(values)


def _value(words: _Words) -> str:
    return "" if words.ahead in (",", ")", _END) else words.take_name()
