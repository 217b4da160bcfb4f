"""YAML and JSON texts to plain values whose lines are known, and plain values to YAML.

The dialect is the one kubectl reads: mapping keys are texts, dates are texts, ``1e3`` is a number, ``1:30`` is a text.
PyYAML's own rules differ there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import Enum, auto
from typing import Final

import yaml

from plugbay.errors import InvalidDocument
from plugbay.model.field_path import FieldPath, field_text
from plugbay.values import dataclass

MAX_VALUES: Final = 100_000
"""The most values in one text, and in one document with its aliases written out.

A thousand pods have half of it, and reading that many takes seconds.
"""

_MAX_DIGITS: Final = 100
"""The most digits of an integer: every integer of the API has fewer, and Python converts far more without delay."""

_TAG: Final = "tag:yaml.org,2002:"
_PLAIN_SCALARS: Final = (
    ("bool", r"(?:y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)", "yYnNtTfFoO"),
    ("int", r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9_]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("null", r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
)


class RepeatedKeys(Enum):
    """The meaning of a key that stands twice in one mapping."""

    REFUSED = auto()
    LAST_COUNTS = auto()


class _TooManyValues(Exception):
    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 (PyYAML keeps its tables on the class)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _TooManyValues(self.line + 1)
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


class _Dumper(yaml.SafeDumper):
    """Quotes what PyYAML or kubectl would take for something else than a text."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_str(self, text: str) -> yaml.ScalarNode:
        """PyYAML's other styles lose these line breaks of YAML 1.1; double quotes escape them."""
        style = '"' if any(character in text for character in "\x85\u2028\u2029\ufeff") else None
        return self.represent_scalar(f"{_TAG}str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)

for _name, _pattern, _first in _PLAIN_SCALARS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(f"{_TAG}{_name}", re.compile(rf"(?:{_pattern})\Z"), list(_first))


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a text.

    Attributes:
        value: built of dict with text keys, list, str, int, float, bool and None only.
        lines: the 1-based line of every mapping key and list item, and of the document itself at ``()``.
        repeated: the line at which each key stood before, of those that stand several times in one mapping.
    """

    value: object
    lines: Mapping[FieldPath, int]
    repeated: Mapping[FieldPath, int] = field(default_factory=dict)


def read_documents(text: str, *, source: str, repeated_keys: RepeatedKeys = RepeatedKeys.REFUSED) -> Iterator[Document]:
    """The documents of ``text``, empty ones left out. Anchors, aliases and merge keys (``<<``) are written out.

    Raises:
        InvalidDocument: broken YAML, a duplicate key unless allowed, a tag, aliases without end, or more values
            than anybody writes.
    """
    try:
        for node in compose_documents(text, source=source):
            tree = _Tree(source, repeated_keys)
            value = tree.read(node, ())
            if value is not None:
                yield Document(value, tree.lines, tree.repeated)
    except RecursionError as error:
        raise InvalidDocument("is nested too deeply", source=source) from error


def compose_documents(text: str, *, source: str) -> Iterator[yaml.Node]:
    """The documents of ``text`` as PyYAML's nodes, which know their places and the characters of their scalars.

    Tags are those of this dialect. Nobody has looked at keys, tags and aliases yet.

    Raises:
        InvalidDocument: broken YAML, or more values than anybody writes.
    """
    try:
        yield from yaml.compose_all(_without_json_tabs(text), _Loader)
    except yaml.YAMLError as error:
        raise _broken(error, text, source) from error
    except _TooManyValues as error:
        problem = f"holds more than {MAX_VALUES} values"
        raise InvalidDocument(problem, line=error.line, source=source) from None
    except RecursionError as error:
        raise InvalidDocument("is nested too deeply", source=source) from error


def to_yaml(value: object) -> str:
    """``value`` as YAML that `read_documents`, kubectl and PyYAML read back as the same value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)


class _Tree:
    """Builds the value of one document from its nodes and notes the lines."""

    def __init__(self, source: str, repeated_keys: RepeatedKeys) -> None:
        self.lines: dict[FieldPath, int] = {}
        self.repeated: dict[FieldPath, int] = {}
        self._source = source
        self._repeated_keys = repeated_keys
        self._values = 0
        self._open: set[int] = set()

    def read(self, node: yaml.Node, path: FieldPath) -> object:
        self.lines.setdefault(path, node.start_mark.line + 1)
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._error(node, path, f"holds more than {MAX_VALUES} values once its aliases are written out")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            raise self._error(node, path, "an alias stands for something that holds it")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
                return [self._item(item, (*path, index)) for index, item in enumerate(node.value)]
            if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
                return self._mapping(node, path)
        finally:
            self._open.discard(id(node))
        raise self._foreign_tag(node, path)

    def _item(self, node: yaml.Node, path: FieldPath) -> object:
        self.lines[path] = node.start_mark.line + 1
        return self.read(node, path)

    def _mapping(self, node: yaml.MappingNode, path: FieldPath) -> dict[str, object]:
        merged: dict[str, object] = {}
        own: dict[str, object] = {}
        for base in reversed(list(self._merged_nodes(node, path))):
            read = self.read(base, path)
            if not isinstance(read, dict):
                raise self._error(base, path, "a merge key (<<) wants a mapping or a list of mappings")
            merged |= read
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                continue
            key = self._key(key_node, path)
            if key in own:
                if self._repeated_keys is RepeatedKeys.REFUSED:
                    raise self._error(key_node, (*path, key), "duplicate key")
                self.repeated[(*path, key)] = self.lines[(*path, key)]
            self.lines[(*path, key)] = key_node.start_mark.line + 1
            own[key] = self.read(value_node, (*path, key))
        return merged | own

    def _merged_nodes(self, node: yaml.MappingNode, path: FieldPath) -> Iterator[yaml.Node]:
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                yield from value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]

    def _key(self, node: yaml.Node, path: FieldPath) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, path, "a key must be a text")
        return _text(node.value)

    def _scalar(self, node: yaml.ScalarNode, path: FieldPath) -> object:
        match node.tag.removeprefix(_TAG):
            case "str" | "merge":
                return _text(node.value)
            case "null":
                return None
            case "bool":
                return node.value.lower() in {"y", "yes", "true", "on"}
            case "int" | "float" as kind:
                try:
                    return _integer(node.value) if kind == "int" else float(node.value.replace(".inf", "inf"))
                except ValueError:
                    raise self._error(node, path, f"{node.value[:32]!r} is not a usable number") from None
        raise self._foreign_tag(node, path)

    def _foreign_tag(self, node: yaml.Node, path: FieldPath) -> InvalidDocument:
        tag = node.tag.replace(_TAG, "!!")
        return self._error(node, path, f"the YAML tag {tag} has no meaning here")

    def _error(self, node: yaml.Node, path: FieldPath, problem: str) -> InvalidDocument:
        line = node.start_mark.line + 1
        return InvalidDocument(problem, field=field_text(path), line=line, source=self._source)


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    if len(digits) > _MAX_DIGITS:
        raise ValueError("too many digits")
    is_old_octal = re.fullmatch(r"[-+]?0[0-7]+", digits)
    return int(digits, 8 if is_old_octal else 0)


def _text(text: str) -> str:
    """Join the surrogate pairs that YAML leaves of JSON's escapes (RFC 8259, section 7); halves of a pair stay."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _without_json_tabs(text: str) -> str:
    """JSON may be indented by tabs and YAML may not; inside JSON's texts there are none."""
    if "\t" in text and text.lstrip().startswith("{"):
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return text
        return text.replace("\t", " ")
    return text


_REMEDIES: Final = (
    ("found character '\\t'", "indent with spaces, not with tabs"),
    ("mapping values are not allowed", "indent this line as its neighbours, and put a blank behind each :"),
    ("expected <block end>", "indent this line as the others of its list or mapping"),
    ("found undefined alias", "put a text that begins with * in quotes"),
    ("while scanning an alias", "put a text that begins with * in quotes"),
)
"""The thing to do, by words of PyYAML's."""


def _told(error: yaml.MarkedYAMLError) -> str:
    """PyYAML's words, the line in which the broken value begins, and what to do."""
    begin, end = error.context_mark, error.problem_mark
    beginning = f" that begins in line {begin.line + 1}" if begin and end and begin.line != end.line else ""
    context = f"{error.context}{beginning}" if error.context else ""
    told = ", ".join(part for part in (context, error.problem) if part)
    remedy = next((text for words, text in _REMEDIES if words in told), "")
    return f"{told}; {remedy}" if remedy else told


def _broken(error: yaml.YAMLError, text: str, source: str) -> InvalidDocument:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        problem = f"not valid YAML: {_told(error)}"
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        return InvalidDocument(problem, line=line, source=source, column=column)
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        problem = f"not valid YAML: the character U+{error.character:04X} is not allowed"
        return InvalidDocument(problem, line=line, source=source, column=column)
    return InvalidDocument(f"not valid YAML: {error}", source=source)
