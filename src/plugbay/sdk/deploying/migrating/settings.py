"""The settings of other plugins' files: none is lost, for each gets a note that says what becomes of it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum

from plugbay.documents.texts import Document
from plugbay.errors.wording import on_one_line
from plugbay.model.field_path import FieldPath, field_text
from plugbay.values import dataclass

_SHOWN = 60


class NoteKind(Enum):
    """The lot of a setting."""

    TAKEN = "taken over"
    OTHERWISE = "done otherwise"
    LEFT = "NOT TAKEN OVER"


@dataclass(frozen=True, slots=True)
class MigrationNote:
    """A note on one setting, or on all settings below one.

    Attributes:
        place: file and line, or the name of another origin.
        setting: its path in the file, and its value if that is short.
        text: half a sentence.
    """

    kind: NoteKind
    place: str
    setting: str
    text: str

    def __str__(self) -> str:
        """One line: what it quotes is another's text, and it becomes a comment of a manifest."""
        return on_one_line(f"{self.place}: {self.setting}: {self.kind.value}: {self.text}")


class ForeignSettings:
    """The settings of one document.

    Args:
        source: the file.
        line: where the document begins, if it lies in a value of another one; None if it is the file's.

    Attributes:
        value: the whole document.
        notes: so far.
    """

    def __init__(self, document: Document, source: str, *, line: int | None = None) -> None:
        self.value = document.value
        self.notes: list[MigrationNote] = []
        self._lines = document.lines
        self._source = source
        self._line = line
        self._noted: set[FieldPath] = set()

    def at(self, *path: str | int) -> object:
        """The value at ``path``; None if there is none."""
        value: object = self.value
        for step in path:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def keys(self, *path: str | int) -> list[str]:
        """The keys of the mapping at ``path``; none if there is no mapping."""
        found = self.at(*path)
        return list(found) if isinstance(found, dict) else []

    def items(self, *path: str | int) -> range:
        """The indices of the list at ``path``; none if there is no list."""
        found = self.at(*path)
        return range(len(found) if isinstance(found, list) else 0)

    def place(self, path: FieldPath) -> str:
        """The file and the line of what lies at ``path``, or of what holds it."""
        line = self._line
        if line is None:
            line = next((self._lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self._lines), 1)
        return f"{self._source}:{line}"

    def located(self, path: FieldPath) -> str:
        """The file, the line and the setting, for an error."""
        return on_one_line(f"{self.place(path)}: {field_text(path)}")

    @property
    def source(self) -> str:
        return self._source

    def note(self, kind: NoteKind, path: FieldPath, text: str) -> None:
        """Tell what becomes of ``path`` and all below it; nothing if it is not there, or that has been told."""
        if path in self._noted:
            return
        if path and self.at(*path) is None and not self._has(path):
            return
        self._noted.add(path)
        self.notes.append(MigrationNote(kind, self.place(path), self._setting(path), text))

    def note_rest(self, text: str) -> None:
        """Tell that each setting without a note is not taken over, unless it is empty."""
        for path in list(self._unnoted(self.value, ())):
            if path and self.at(*path) in ([], {}, "", None):
                self.note(NoteKind.OTHERWISE, path, "empty, which is the same here")
            self.note(NoteKind.LEFT, path, text)

    def _unnoted(self, value: object, path: FieldPath) -> Iterator[FieldPath]:
        """The settings without a note: of those below one another only the outermost of which none has a note."""
        if path in self._noted:
            return
        children: Sequence[tuple[str | int, object]] = ()
        if isinstance(value, dict):
            children = list(value.items())
        elif isinstance(value, list):
            children = list(enumerate(value))
        is_inner = not path or any(noted[: len(path)] == path for noted in self._noted)
        if not (children and is_inner):
            if path or value not in ({}, None):
                yield path
            return
        for step, below in children:
            yield from self._unnoted(below, (*path, step))

    def _has(self, path: FieldPath) -> bool:
        holder, last = self.at(*path[:-1]), path[-1]
        if isinstance(holder, list):
            return isinstance(last, int) and last < len(holder)
        return isinstance(holder, dict) and last in holder

    def _setting(self, path: FieldPath) -> str:
        value, name = self.at(*path), field_text(path) or "the whole"
        if isinstance(value, dict | list):
            return name
        text = value if isinstance(value, str) else json.dumps(value)
        return f"{name}: {text}" if len(text) <= _SHOWN and text.isprintable() else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """The outcome of reading another plugin's files.

    Attributes:
        origin: the other plugin.
        words: for ``plugbay serve``.
        files: of the ConfigMap.
        variables: for the plugin's environment.
        places: where ``words`` were given, by the names of their flags.
        pod: where and how the pods run.
        notes: in the order of the files.
    """

    origin: str
    words: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    pod: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[MigrationNote, ...] = ()

    @property
    def left(self) -> tuple[MigrationNote, ...]:
        """The notes on what has to be looked after."""
        return tuple(each for each in self.notes if each.kind is NoteKind.LEFT)


def in_order(documents: Iterable[ForeignSettings]) -> Iterator[MigrationNote]:
    """The notes on all documents by their lines."""
    for each in documents:
        yield from sorted(each.notes, key=lambda note: int(note.place.rpartition(":")[2]))
