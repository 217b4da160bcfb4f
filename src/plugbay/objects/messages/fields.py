"""The fields of the messages of Kubernetes' API, for schemas and for strategic merge patches.

A line of ``fields.txt`` is a message: its name, then ``NAME:NUMBER:TYPE`` of each field. ``=`` stands for the name of a
field whose own fields are part of the message. Types: ``s`` text, ``b`` flag, ``i`` whole number, ``d`` number, ``y``
bytes, ``Q`` quantity, ``I`` number or text, ``T`` and ``M`` moments, ``J`` any JSON, else a message; ``[x]`` a list,
``{x}`` a mapping; ``x?`` an empty value differs from none; ``@KEY`` tells the items of a list
apart, ``@`` makes of it a set.

Source: Kubernetes 1.37 ``generated.proto`` and ``types.go`` of its API packages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, Generic, NamedTuple, TypeVar

from plugbay.manifest.shapes import (
    Amount,
    Anything,
    Field,
    Flag,
    ListOf,
    MapOf,
    Shape,
    Support,
    Table,
    Text,
    Whole,
    WholeOrText,
)
from plugbay.objects.strategic_merge import MergeRule

_LINES: Final = {
    line.partition(" ")[0]: line for line in files(__package__).joinpath("fields.txt").read_text("ascii").splitlines()
}
_FIELD: Final = re.compile(
    r"(?P<name>[^:]+):(?P<number>\d+):(?P<type>[^?@]+)(?P<optional>\??)(?P<merge>@?)(?P<key>\w*)"
)
INLINED: Final = "="
_SCALARS: Final[Mapping[str, Shape]] = {
    "s": Text(),
    "b": Flag(),
    "i": Whole(),
    "d": Amount(),
    "y": Text(),
    "Q": Amount(),
    "I": WholeOrText(),
    "T": Text(),
    "M": Text(),
    "J": Anything(),
}
_Value = TypeVar("_Value")


class MessageField(NamedTuple):
    """A field.

    Attributes:
        name: in JSON; `INLINED` if the fields of its own message take its place.
        type: as in the file, without what follows it.
        is_optional: whether an empty value differs from none.
        rule: how its list is merged; None for any other field.
    """

    name: str
    number: int
    type: str
    is_optional: bool
    rule: MergeRule | None


@cache
def message_fields(message: str) -> tuple[MessageField, ...]:
    """The fields of a message, such as ``core/v1.ConfigMap``.

    Raises:
        KeyError: it is not in the table.
    """
    return tuple(map(_field, _LINES[message].split(" ")[1:]))


def message_of(api_version: str, kind: str) -> str:
    """The name of the message of a kind: ``rbac/v1.Role`` of ``rbac.authorization.k8s.io/v1`` and ``Role``."""
    group, _, version = api_version.rpartition("/")
    return f"{group.partition('.')[0] or 'core'}/{version}.{kind}"


def has_message(message: str) -> bool:
    return message in _LINES


def object_table(api_version: str, kind: str) -> Table:
    """The fields of a kind of objects; they are looked up when they are first needed."""
    identity = {"apiVersion": Field(Support.USED, Text()), "kind": Field(Support.USED, Text())}
    return Table(_Late(lambda: {**identity, **_shapes(message_of(api_version, kind))}))


def message_table(message: str) -> Table:
    """The fields of a message; they are looked up when they are first needed."""
    return Table(_Late(lambda: _shapes(message)))


def message_rule(message: str) -> MergeRule:
    """The rules of strategic merge patches for a message; they are looked up when they are first needed."""
    return MergeRule(fields=_Late(lambda: _rules(message)))


class _Late(Mapping[str, _Value], Generic[_Value]):
    """A mapping that is made when it is first looked into: most kinds are never, and some messages hold themselves."""

    def __init__(self, make: Callable[[], Mapping[str, _Value]]) -> None:
        self._make = cache(make)

    def __getitem__(self, name: str) -> _Value:
        return self._make()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._make())

    def __len__(self) -> int:
        return len(self._make())


def _field(text: str) -> MessageField:
    found = _FIELD.fullmatch(text)
    assert found is not None, text
    rule = MergeRule(found["key"], is_set=not found["key"]) if found["merge"] else None
    return MessageField(found["name"], int(found["number"]), found["type"], bool(found["optional"]), rule)


def _shapes(message: str) -> dict[str, Field]:
    shapes: dict[str, Field] = {}
    for field in message_fields(message):
        if field.name == INLINED:
            shapes |= _shapes(field.type)
        else:
            shapes[field.name] = Field(Support.USED, _shape(field.type))
    return shapes


def _shape(code: str) -> Shape:
    if code.startswith("["):
        return ListOf(_shape(code[1:-1]))
    if code.startswith("{"):
        return MapOf(_shape(code[1:-1]))
    return _SCALARS[code] if code in _SCALARS else message_table(code)


def _rules(message: str) -> dict[str, MergeRule]:
    rules: dict[str, MergeRule] = {}
    for field in message_fields(message):
        inner = field.type.strip("[]{}")
        if field.name == INLINED:
            rules |= _rules(field.type)
        elif inner in _SCALARS:
            if field.rule is not None:
                rules[field.name] = field.rule
        elif field.rule is not None:
            rules[field.name] = MergeRule(field.rule.key, fields=message_rule(inner).fields)
        elif not field.type.startswith(("[", "{")):
            rules[field.name] = message_rule(inner)
    return rules
