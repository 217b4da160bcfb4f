"""Collects what is wrong with the objects of one source, each with its field and line."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from plugbay.errors import InvalidManifest
from plugbay.model.field_path import FieldPath, field_text
from plugbay.values import dataclass

NO_LINES: Final[Mapping[FieldPath, int]] = MappingProxyType({})


class Strictness(Enum):
    """The treatment of fields that are unknown, or known and not supported here."""

    STRICT = "strict"
    """Fields that nothing here honours are errors."""
    LENIENT = "lenient"
    """Fields that nothing here honours are dropped, with a warning."""


@dataclass(frozen=True, slots=True)
class ManifestWarning:
    """A field that was dropped. ``str()`` reads like `InvalidManifest`."""

    problem: str
    field: str
    line: int | None
    source: str

    def __str__(self) -> str:
        return InvalidManifest(self.problem, field=self.field, line=self.line, source=self.source).sentence


class ManifestReport:
    """Problems and warnings of one object.

    Of a field and all below it only the first problem is kept, so that one mistake is not told twice.
    """

    def __init__(
        self, *, source: str, mode: Strictness, lines: Mapping[FieldPath, int] = NO_LINES, base: FieldPath = ()
    ) -> None:
        self._source = source
        self._mode = mode
        self._lines = lines
        self._base = base
        self._problems: dict[FieldPath, InvalidManifest] = {}
        self.warnings: list[ManifestWarning] = []

    @property
    def problems(self) -> list[InvalidManifest]:
        """The problems in document order; without lines, in the order in which they were found."""
        return sorted(self._problems.values(), key=lambda problem: problem.line or 0)

    def problem(self, path: FieldPath, text: str) -> None:
        if not self.is_blamed(path):
            self._problems[path] = InvalidManifest(
                text, field=field_text((*self._base, *path)), line=self._line(path), source=self._source
            )

    def dropped(self, path: FieldPath, text: str) -> None:
        """A field we cannot honour: a problem or a warning, as the strictness says."""
        if self._mode is Strictness.STRICT:
            self.problem(path, text)
            return
        field = field_text((*self._base, *path))
        self.warnings.append(ManifestWarning(f"{text}; ignored", field, self._line(path), self._source))

    def is_blamed(self, path: FieldPath) -> bool:
        """Whether something was found at ``path`` or above it: then its value is lost."""
        return any(path[: len(known)] == known for known in self._problems)

    def is_sound(self, path: FieldPath) -> bool:
        """Whether nothing was found at ``path``, above or below it."""
        return not any(path[: len(known)] == known[: len(path)] for known in self._problems)

    def _line(self, path: FieldPath) -> int | None:
        """The line of the field; of a missing one, the line of what should hold it."""
        full = (*self._base, *path)
        while full and full not in self._lines:
            full = full[:-1]
        return self._lines.get(full)


def raise_problems(problems: list[InvalidManifest]) -> None:
    """Raise all of ``problems`` as one error, the first one leading.

    Raises:
        InvalidManifest: there are any.
    """
    if not problems:
        return
    first, *more = problems
    raise InvalidManifest(first.problem, field=first.field, line=first.line, source=first.source, more=more)
