"""Texts as trees of nodes that know their places and the very characters of their scalars. Pure.

A value is not taken for a number here: ``0407`` stays ``0407``, until a field says what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

import yaml

from plugbay.documents.texts import MAX_VALUES, compose_documents
from plugbay.errors import InvalidDocument
from plugbay.plugins.generic.config.spots import Spot
from plugbay.values import dataclass

_TAG: Final = "tag:yaml.org,2002:"


class ConfigFormat(Enum):
    """The language of a text; JSON that is not in a file of its own counts as YAML."""

    YAML = "yaml"
    JSON = "json"
    TOML = "toml"


FORMATS: Final = {
    ".yaml": ConfigFormat.YAML,
    ".yml": ConfigFormat.YAML,
    ".json": ConfigFormat.JSON,
    ".toml": ConfigFormat.TOML,
}
"""Languages of files, by the ends of their names in lower case."""


def format_of(file_name: str) -> ConfigFormat:
    """The language of a file by the end of its name; YAML if that says nothing."""
    return FORMATS.get(f".{file_name.lower().rpartition('.')[2]}", ConfigFormat.YAML)


class ScalarKind(Enum):
    """The type that the language of the text gives a scalar."""

    TEXT = auto()
    INTEGER = auto()
    FLOAT = auto()
    BOOLEAN = auto()
    NULL = auto()


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value.

    Attributes:
        text: the value of a text; of all else the characters in the file.
        is_quoted: whether it stands in quotes, or in a block.
    """

    text: str
    kind: ScalarKind
    spot: Spot
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """A list."""

    items: tuple[Node, ...]
    spot: Spot


@dataclass(frozen=True, slots=True)
class Keyed:
    """A key, its place, and its value."""

    key: str
    spot: Spot
    node: Node


@dataclass(frozen=True, slots=True)
class Keys:
    """A mapping; keys may repeat, which a reader of fields refuses."""

    entries: tuple[Keyed, ...]
    spot: Spot


Node = Scalar | Series | Keys


def read_yaml(text: str, *, source: str) -> Node | None:
    """The only document of a text, with anchors, aliases and merge keys written out; None for an empty one.

    Raises:
        InvalidDocument: not YAML, several documents, a tag, a key that is not a text, or aliases without end.
    """
    found = [node for node in compose_documents(text, source=source) if not _is_nothing(node)]
    if len(found) > 1:
        raise _refused(found[1], "a second document begins here; a config is one document", source)
    return _YamlNodes(source).read(found[0]) if found else None


def _is_nothing(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}null"


class _YamlNodes:
    """Turns PyYAML's nodes into ours."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._values = 0
        self._open: set[int] = set()

    def read(self, node: yaml.Node) -> Node:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _refused(node, f"holds more than {MAX_VALUES} values once its aliases are written out", self._source)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise _refused(node, "an alias stands for something that holds it", self._source)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
                return Series(tuple(self.read(item) for item in node.value), _spot(node))
            if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
                return self._mapping(node)
        finally:
            self._open.discard(id(node))
        raise self._foreign_tag(node)

    def _mapping(self, node: yaml.MappingNode) -> Keys:
        own = tuple(self._entry(key, value) for key, value in node.value if key.tag != f"{_TAG}merge")
        known = {each.key.lower() for each in own}
        merged: dict[str, Keyed] = {}
        for base in self._merged(node):
            read = self.read(base)
            if not isinstance(read, Keys):
                raise _refused(base, "a merge key (<<) wants a mapping or a list of mappings", self._source)
            for entry in read.entries:  # of several bases the first one counts
                if entry.key.lower() not in known:
                    merged.setdefault(entry.key, entry)
        return Keys((*own, *merged.values()), _spot(node))

    def _merged(self, node: yaml.MappingNode) -> Iterator[yaml.Node]:
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                yield from value.value if isinstance(value, yaml.SequenceNode) else [value]

    def _entry(self, key: yaml.Node, value: yaml.Node) -> Keyed:
        if not isinstance(key, yaml.ScalarNode):
            raise _refused(key, "a key must be a text", self._source)
        return Keyed(whole_text(key.value), _spot(key), self.read(value))

    def _scalar(self, node: yaml.ScalarNode) -> Scalar:
        kinds = {
            "str": ScalarKind.TEXT,
            "merge": ScalarKind.TEXT,
            "int": ScalarKind.INTEGER,
            "float": ScalarKind.FLOAT,
            "bool": ScalarKind.BOOLEAN,
            "null": ScalarKind.NULL,
        }
        kind = kinds.get(node.tag.removeprefix(_TAG))
        if kind is None:
            raise self._foreign_tag(node)
        return Scalar(whole_text(node.value), kind, _spot(node), is_quoted=node.style is not None)

    def _foreign_tag(self, node: yaml.Node) -> InvalidDocument:
        return _refused(node, f"the YAML tag {node.tag.replace(_TAG, '!!')} has no meaning here", self._source)


def _spot(node: yaml.Node) -> Spot:
    return Spot(node.start_mark.line + 1, node.start_mark.column + 1)


def _refused(node: yaml.Node, problem: str, source: str) -> InvalidDocument:
    spot = _spot(node)
    return InvalidDocument(problem, line=spot.line, column=spot.column, source=source)


def whole_text(text: str) -> str:
    """The text, whose surrogates (of JSON's escapes) are joined, and a replacement character where one is alone."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
