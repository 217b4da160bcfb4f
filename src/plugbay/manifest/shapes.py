"""The shapes that fields of a v1 object can have, and the walk that holds an object against them.

The walk returns only what is used, with the right types, so that what comes after it need not ask again.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Final, assert_never

from plugbay.errors import InvalidQuantity
from plugbay.manifest.report import ManifestReport
from plugbay.model.field_path import FieldPath
from plugbay.model.quantity import Quantity
from plugbay.values import dataclass


class Support(Enum):
    """The treatment of a field of the v1 API."""

    USED = "used"
    UNUSED = "unused"
    """The node decides nothing by it: accepted, and shown again as it came. A runtime, or a container that asks for
    fields of its pod, may still take it from `Pod.unused`. Where only some values change nothing, the others are
    refused."""
    IGNORED = "ignored"
    """The API server fills it in: accepted and forgotten, so that ``kubectl get -o yaml`` can be fed back."""
    UNSUPPORTED = "unsupported"
    """Leaving it out silently would break what its author expects: refused, unless its value is harmless."""


@dataclass(frozen=True, slots=True)
class Text:
    """A string; with ``choices`` one of them."""

    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean."""


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer."""


@dataclass(frozen=True, slots=True)
class WholeOrText:
    """An integer or a string, such as the number or the name of a port."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity, as text or as number."""


@dataclass(frozen=True, slots=True)
class Anything:
    """Any value; for fields that nothing looks into."""


@dataclass(frozen=True, slots=True)
class ListOf:
    item: Shape


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping whose keys the author chooses."""

    value: Shape


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping whose keys the API names; it has to have those that are ``required``."""

    fields: Mapping[str, Field]
    required: tuple[str, ...] = ()


Shape = Text | Flag | Whole | WholeOrText | Amount | Anything | ListOf | MapOf | Table


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a `Table`.

    Attributes:
        harmless: values that ask for nothing we do not do: all that are taken of an unsupported field, and, if there
            are any, of an unused one.
        shows_empty: whether an empty mapping is shown again as it came; it asks for nothing.
    """

    support: Support
    shape: Shape = field(default=Anything())
    harmless: tuple[object, ...] = ()
    shows_empty: bool = False


_ABSENT: Final = object()
_MAX_SHOWN: Final = 40
_NOT_YET: Final = "not supported by plugbay's node yet"


class Walk:
    """Holds one object against its table.

    Attributes:
        unused: the fields that were accepted and change nothing; `read` fills it.
    """

    def __init__(self, report: ManifestReport) -> None:
        self.unused: dict[FieldPath, object] = {}
        self._report = report

    def read(self, value: object, table: Table) -> dict[str, object]:
        """The used fields of ``value``; what is wrong with the rest goes to the report."""
        read = self._value(value, table, ())
        return read if isinstance(read, dict) else {}

    def _value(self, value: object, shape: Shape, path: FieldPath) -> object:
        match shape, value:
            case Table(), dict():
                return self._table(value, shape, path)
            case MapOf(), dict():
                return self._present({key: self._value(item, shape.value, (*path, key)) for key, item in value.items()})
            case ListOf(), list():
                read = [self._value(item, shape.item, (*path, index)) for index, item in enumerate(value)]
                # A lost mapping leaves an empty one: later checks name the items after it by their index.
                lost: object = {} if isinstance(shape.item, Table) else _ABSENT
                return [item for item in (lost if item is _ABSENT else item for item in read) if item is not _ABSENT]
            case Text(), str():
                return self._text(value, shape, path)
            case Amount(), str() | int() | float() if not isinstance(value, bool):
                return self._amount(value, path)
            case (Flag(), bool()) | (Anything(), _):
                return value
            case Whole() | WholeOrText(), int() if not isinstance(value, bool):
                return value
            case WholeOrText(), str():
                return self._text(value, Text(), path)
        hint = "; put it in quotes" if isinstance(shape, Text) and isinstance(value, int | float) else ""
        self._report.problem(path, f"wants {wanted(shape)}, found {found(value)}{hint}")
        return _ABSENT

    def _table(self, value: dict[str, object], table: Table, path: FieldPath) -> dict[str, object]:
        for name in table.required:
            if value.get(name) in (None, ""):
                self._report.problem((*path, name), "Required value")
        read = {
            name: self._field(item, table.fields.get(name), (*path, name), known=table.fields)
            for name, item in value.items()
            if item is not None  # null is the same as leaving the field out
        }
        return self._present(read)

    def _field(self, value: object, rule: Field | None, path: FieldPath, *, known: Mapping[str, Field]) -> object:
        if rule is None:
            self._report.dropped(path, f"unknown field{_suggestion(str(path[-1]), known)}")
            return _ABSENT
        match rule.support:
            case Support.USED:
                if rule.shows_empty and value == {}:
                    self._keep(path, {})
                return self._value(value, rule.shape, path)
            case Support.UNUSED:
                if self._value(value, rule.shape, path) is _ABSENT:
                    pass  # and that has been said
                elif rule.harmless and not _is_one_of(value, rule.harmless):
                    self._report.dropped(path, _NOT_YET)
                else:
                    self._keep(path, value)
            case Support.IGNORED:
                pass
            case Support.UNSUPPORTED:
                if not _is_one_of(value, rule.harmless):
                    self._report.dropped(path, _NOT_YET)
            case _:
                assert_never(rule.support)
        return _ABSENT

    def _keep(self, path: FieldPath, value: object) -> None:
        """Keep an unused field whole, in the place of what was found in it."""
        for inner in [known for known in self.unused if known[: len(path)] == path]:
            del self.unused[inner]
        self.unused[path] = value

    def _text(self, value: str, shape: Text, path: FieldPath) -> object:
        if shape.choices and value not in shape.choices:
            supported = ", ".join(f'"{choice}"' for choice in shape.choices)
            self._report.problem(path, f'Unsupported value: "{value}": supported values: {supported}')
            return _ABSENT
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            self._report.problem(path, "holds a character that no process can be given")
            return _ABSENT
        return value

    def _amount(self, value: str | float, path: FieldPath) -> object:
        try:
            return Quantity.parse(value if isinstance(value, str) else repr(value))
        except InvalidQuantity as error:
            self._report.problem(path, str(error))
            return _ABSENT

    @staticmethod
    def _present(read: dict[str, object]) -> dict[str, object]:
        return {name: item for name, item in read.items() if item is not _ABSENT}


def _is_one_of(value: object, others: tuple[object, ...]) -> bool:
    """Membership that tells 0 from False."""
    return any(type(value) is type(other) and value == other for other in others)


def wanted(shape: Shape) -> str:
    """``shape`` in words: ``a list of strings``."""
    match shape:
        case ListOf():
            return f"a list of {_PLURALS[type(shape.item)]}"
        case MapOf():
            return f"a mapping of {_PLURALS[type(shape.value)]}"
        case _:
            return _SINGULARS[type(shape)]


_SINGULARS: Final[Mapping[type, str]] = {
    Text: "a string",
    Flag: "true or false",
    Whole: "a whole number",
    WholeOrText: "a whole number or a string",
    Amount: "a quantity",
    Anything: "a value",
    Table: "a mapping",
}
_PLURALS: Final[Mapping[type, str]] = {
    Text: "strings",
    Flag: "booleans",
    Whole: "whole numbers",
    WholeOrText: "whole numbers or strings",
    Amount: "quantities",
    Anything: "values",
    ListOf: "lists",
    MapOf: "mappings",
    Table: "mappings",
}


def found(value: object) -> str:
    """``value`` in words: ``the number 8080``, ``a list``."""
    match value:
        case None:
            return "null"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return f"the number {str(value)[:_MAX_SHOWN]}"
        case str():
            return f"the string {value!r}" if len(value) <= _MAX_SHOWN else "a string"
        case list():
            return "a list"
        case _:
            return "a mapping"


def _suggestion(name: str, known: Mapping[str, Field]) -> str:
    by_fold = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_fold, n=1, cutoff=0.75)
    return f', did you mean "{by_fold[close[0]]}"?' if close else ""
