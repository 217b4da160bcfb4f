"""Typed reading of the fields of a configuration file, with the place of each. Pure.

Null stands for a field that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum, auto
from typing import Final, TypeVar

from plugbay.documents.go_json import folded, kind
from plugbay.errors import InvalidNvidiaConfig
from plugbay.model.field_path import FieldPath, field_text
from plugbay.plugins.nvidia.config.choices import Dialect
from plugbay.plugins.nvidia.config.durations import Span, parse_span
from plugbay.plugins.nvidia.config.places import DECODING, ConfigPlace
from plugbay.values import dataclass

T = TypeVar("T")

_SHOWN: Final = 40
_INT_BITS: Final = 63


class NameCase(Enum):
    """Whether the case of letters counts in the names of fields; for NVIDIA's plugin in some mappings it does."""

    ANY = auto()
    EXACT = auto()


@dataclass(frozen=True, slots=True)
class Page:
    """The text that is read.

    Attributes:
        lines: the 1-based line of each field and list item.
        warnings: grows with what the reader of the file should know.
    """

    source: str
    lines: Mapping[FieldPath, int]
    dialect: Dialect
    warnings: list[str] = field(default_factory=list)

    @property
    def is_lenient(self) -> bool:
        """Whether everything that NVIDIA's plugin takes is taken."""
        return self.dialect is Dialect.REFERENCE

    def place(self, path: FieldPath) -> ConfigPlace:
        """The place of a field; the line of one that is missing is that of what should hold it."""
        known = next((path[:end] for end in range(len(path), -1, -1) if path[:end] in self.lines), ())
        return ConfigPlace(self.source, field_text(path), self.lines.get(known))

    def error(self, path: FieldPath, problem: str, allowed: str = "") -> InvalidNvidiaConfig:
        return self.place(path).error(problem, step=DECODING, allowed=allowed)

    def warn(self, path: FieldPath, problem: str) -> None:
        place = self.place(path)
        where = place.source if place.line is None else f"{place.source}:{place.line}"
        self.warnings.append(f"{where}: {place.field}: {problem}" if place.field else f"{where}: {problem}")

    def warn_of_extension(self, path: FieldPath) -> None:
        """Say what becomes of a field that NVIDIA's plugin reads and then ignores."""
        if self.is_lenient:
            self.warn(
                path, "it is ignored, as NVIDIA's plugin does; with --config-dialect=extended it does what it says"
            )
        else:
            self.warn(path, "it does what it says here; NVIDIA's plugin 0.20 would ignore it")


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A value of the file that is not null, and its place."""

    value: object
    path: FieldPath
    page: Page

    def error(self, problem: str, allowed: str = "") -> InvalidNvidiaConfig:
        return self.page.error(self.path, problem, allowed)

    def wants(self, wanted: str) -> InvalidNvidiaConfig:
        """The error that the value is of another kind."""
        return self.error(f"wants {wanted}, found {shown(self.value)}")

    def section(self, known: Sequence[str], *, case: NameCase = NameCase.ANY) -> Section:
        """The value as a mapping with these fields.

        Raises:
            InvalidNvidiaConfig: not a mapping, or a field that is not ``known``, unless the dialect ignores those.
        """
        if not isinstance(self.value, dict):
            raise self.wants("a mapping")
        section = Section(self.value, self.path, self.page, case)
        spellings: dict[str, str] = {}
        for name in self.value:
            meant = next((each for each in known if section.is_called(name, each)), None)
            if meant is None:
                section.unknown(name, known)
            elif spellings.setdefault(meant, name) != name:
                section.repeated(name, spellings[meant])
        return section

    def items(self) -> list[FieldValue]:
        """The value as a list, with null items left in.

        Raises:
            InvalidNvidiaConfig: not a list.
        """
        if not isinstance(self.value, list):
            raise self.wants("a list")
        return [FieldValue(item, (*self.path, index), self.page) for index, item in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wants("a text")
        return self.value

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wants("true or false")
        return self.value

    def integer(self) -> int:
        """The value as an integer of 64 bits; ``2.0`` is one."""
        value = self.value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wants("an integer")
        if not -(1 << _INT_BITS) <= value < 1 << _INT_BITS:
            raise self.error(f"{str(value)[:_SHOWN]} is not an integer of 64 bits")
        return value

    def span(self) -> Span:
        """The value as a duration: a number of nanoseconds, a text of Go's, or ``infinite``."""
        allowed = "nanoseconds as a number, a duration such as 60s or 1m30s, infinite"
        if isinstance(self.value, str):
            try:
                return parse_span(self.value)
            except ValueError as error:
                raise self.error(str(error), allowed) from None
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            raise self.error(f"invalid duration: found {shown(self.value)}", allowed)
        if not abs(self.value) < 1 << _INT_BITS:
            raise self.error(f"invalid duration: {str(self.value)[:_SHOWN]} nanoseconds are too many", allowed)
        return Span(int(self.value))

    def parsed(self, parse: Callable[[str], T]) -> T:
        """The text as ``parse`` reads it; its `ValueError` becomes an error at this place."""
        text = self.text()
        try:
            return parse(text)
        except ValueError as error:
            raise self.error(str(error)) from None


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping of the file."""

    value: dict[str, object]
    path: FieldPath
    page: Page
    case: NameCase

    def get(self, name: str) -> FieldValue | None:
        """The field of that name; None when it is missing or null. Of several spellings the last one counts."""
        found = self.get_all(name)
        return found[-1] if found else None

    def get_all(self, name: str) -> list[FieldValue]:
        """The field of that name in each of its spellings, in the order in which the reference reads them: sorted."""
        spelled = sorted(key for key in self.value if self.is_called(key, name))
        return [
            FieldValue(self.value[key], (*self.path, key), self.page) for key in spelled if self.value[key] is not None
        ]

    def has(self, name: str) -> bool:
        """Whether the field is there, be it null."""
        return any(self.is_called(key, name) for key in self.value)

    def is_called(self, key: str, name: str) -> bool:
        """Whether ``key`` of the file stands for the field ``name``."""
        return key == name or (self.case is NameCase.ANY and folded(key) == name.lower())

    def error(self, problem: str, name: str = "", allowed: str = "") -> InvalidNvidiaConfig:
        """The error of the field ``name``, or of the mapping."""
        return self.page.error((*self.path, self._spelled(name)) if name else self.path, problem, allowed)

    def unknown(self, name: str, known: Sequence[str]) -> None:
        """Refuse the field, or note that it is ignored."""
        if not self.page.is_lenient:
            raise self.page.error((*self.path, name), "unknown field", ", ".join(known))
        self.page.warn((*self.path, name), f"there is no such field; it is ignored (allowed: {', '.join(known)})")

    def repeated(self, name: str, other: str) -> None:
        """Refuse two spellings of one field, or note which of them counts."""
        if not self.page.is_lenient:
            raise self.page.error((*self.path, name), f"duplicate key: it is the same field as {other}")
        counts = max(name, other)
        self.page.warn((*self.path, name), f"it is the same field as {other}; where both speak, {counts} counts")

    def _spelled(self, name: str) -> str:
        """The field's name as the file spells it."""
        return max((key for key in self.value if self.is_called(key, name)), default=name)


def shown(value: object) -> str:
    """The value in words, for the end of a sentence."""
    match value:
        case str() if len(value) <= _SHOWN:
            return f"the text {value!r}"
        case int() | float() if not isinstance(value, bool):
            return f"the number {str(value)[:_SHOWN]}"
        case _:
            return kind(value)  # type: ignore[arg-type]  # read from a document, so JSON
