"""The targets of a process as a config file names them, and the differences of two such lists.

::

    plugins:
    - target: directory
      settings: {resource: example.com/gopher, path: /etc/gophers, env: Gopher}
    - target: my_package.plugins:Cards
      settings: {slots: 4}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec

from plugbay.documents.texts import read_documents
from plugbay.errors import InvalidDocument, PluginLoadError
from plugbay.model.field_path import FieldPath, field_text
from plugbay.values import dataclass

_Settings = TypeVar("_Settings", bound=msgspec.Struct)

_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`")
_MISSING: Final = re.compile(r"Object missing required field `(.*)`")
_OTHER_TYPE: Final = re.compile(r"Expected `(.*)`, got `(.*)`")
_TYPES: Final = {
    "array": "a list",
    "object": "a mapping",
    "str": "a text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}


class ConfigEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A target, as on the command line, and the settings to make it with.

    Attributes:
        target: ``directory``, FILE.py, FILE.py:object or module:object. Files are looked for beside the config file.
        settings: arguments of the target's class.
    """

    target: str
    settings: dict[str, Any] = {}

    def __str__(self) -> str:
        return f"{self.target} {_shown(self.settings)}" if self.settings else self.target


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The targets that a process serves.

    Attributes:
        plugins: in the order in which they get a resource that two of them want.
    """

    plugins: tuple[ConfigEntry, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes from one config's entries to another's.

    Attributes:
        changed: pairs of an old entry and the new one in its place.
    """

    added: tuple[ConfigEntry, ...] = ()
    removed: tuple[ConfigEntry, ...] = ()
    changed: tuple[tuple[ConfigEntry, ConfigEntry], ...] = ()

    def lines(self) -> list[str]:
        """A line for each entry that differs."""
        return [
            *(f"removed: {entry}" for entry in self.removed),
            *(f"changed: {_title(after)}: {_changes(before, after)}" for before, after in self.changed),
            *(f"added: {entry}" for entry in self.added),
        ]


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """The places in a config file, for errors."""

    lines: Mapping[FieldPath, int]
    source: str

    def error(self, problem: str, path: FieldPath) -> InvalidDocument:
        """The error that the field at ``path`` is wrong; its line is that of the field, or of what holds it."""
        line = next((self.lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.lines), None)
        return InvalidDocument(problem, field_text(path), line, self.source)


def read_as(kind: type[_Settings], text: str, *, source: str) -> tuple[_Settings, ConfigDocument]:
    """Read YAML or JSON of one document.

    Raises:
        InvalidDocument: one sentence about the first thing that is wrong with it.
    """
    documents = list(read_documents(text, source=source))
    if len(documents) != 1:
        problem = "holds more than one document" if documents else "is empty; it has to say `plugins:`"
        raise InvalidDocument(problem, source=source)
    [document] = documents
    places = ConfigDocument(document.lines, source)
    try:
        return msgspec.convert(document.value, kind), places
    except msgspec.ValidationError as error:
        path, problem = _in_our_words(str(error))
        raise places.error(problem, path) from error


def settings_as(kind: type[_Settings], entry: ConfigEntry) -> _Settings:
    """The settings of an entry whose target takes these.

    Raises:
        PluginLoadError: one is missing, of another type, or not among them.
    """
    try:
        return msgspec.convert(entry.settings, kind)
    except msgspec.ValidationError as error:
        path, problem = _in_our_words(str(error))
        raise PluginLoadError(entry.target, f"{field_text(('settings', *path))}: {problem}") from error


def _in_our_words(message: str) -> tuple[FieldPath, str]:
    """Place and problem by msgspec's message, such as ``Expected `str`, got `int` - at `$.plugins[0].target```."""
    problem, _, place = message.partition(" - at ")
    path: FieldPath = tuple(name or int(index) for name, index in _STEP.findall(place))
    if unknown := _UNKNOWN.fullmatch(problem):
        return (*path, unknown[1]), "unknown field"
    if missing := _MISSING.fullmatch(problem):
        return path, f"wants the field {missing[1]}"
    if other := _OTHER_TYPE.fullmatch(problem):
        wanted, found = (_TYPES.get(name, name) for name in other.groups())
        return path, f"wants {wanted}, found {found}"
    return path, problem


def difference(before: Config, after: Config) -> Difference:
    """The changes from ``before`` to ``after``. The order of entries does not count; equal entries have not changed.

    An entry has changed when its target is the same and it has the same ``resource`` setting, or none.
    """
    removed, added = _without(before.plugins, after.plugins), _without(after.plugins, before.plugins)
    changed = []
    for old in list(removed):
        new = next((each for each in added if _identity(each) == _identity(old)), None)
        if new is not None:
            removed.remove(old)
            added.remove(new)
            changed.append((old, new))
    return Difference(tuple(added), tuple(removed), tuple(changed))


def _without(entries: Sequence[ConfigEntry], others: Sequence[ConfigEntry]) -> list[ConfigEntry]:
    """``entries`` without ``others``; each of these takes one equal entry away."""
    left = list(entries)
    for other in others:
        if other in left:
            left.remove(other)
    return left


def _title(entry: ConfigEntry) -> str:
    target, resource = _identity(entry)
    return f"{target} {resource}" if resource else target


def _identity(entry: ConfigEntry) -> tuple[str, object]:
    return entry.target, entry.settings.get("resource")


def _changes(before: ConfigEntry, after: ConfigEntry) -> str:
    old, new = before.settings, after.settings
    changes = []
    for name in dict.fromkeys(chain(old, new)):
        if name not in new:
            changes.append(f"{name} {_value(old[name])} removed")
        elif name not in old:
            changes.append(f"{name} {_value(new[name])} added")
        elif old[name] != new[name]:
            changes.append(f"{name} {_value(old[name])} -> {_value(new[name])}")
    return ", ".join(changes)


def _shown(settings: Mapping[str, object]) -> str:
    return " ".join(f"{name}={_value(value)}" for name, value in settings.items())


def _value(value: object) -> str:
    return value if isinstance(value, str) and value else msgspec.json.encode(value).decode()
