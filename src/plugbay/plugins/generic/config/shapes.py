"""Shapes of the values that fields take. One table of fields serves the reader and the JSON Schema. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum
from typing import Any, Final, Protocol

from plugbay.plugins.generic.config.nodes import ConfigFormat, Keys, Node, Scalar, ScalarKind, Series
from plugbay.plugins.generic.config.problems import ConfigFindings, short, suggestion
from plugbay.plugins.generic.config.spots import Spot
from plugbay.values import dataclass

_SHOWN: Final = 40
"""The most characters of a number that are shown."""

FieldPath = tuple[str | int, ...]
Definitions = dict[str, dict[str, Any]]
"""Objects of a JSON Schema by their names."""


class Wrong(Enum):
    """The value of a node that cannot be read; its problem is noted already."""

    WRONG = "wrong"


WRONG: Final = Wrong.WRONG


@dataclass(frozen=True, slots=True)
class ShapeContext:
    """The text that is read, as far as it decides what its characters mean.

    Attributes:
        has_decimal_ids: whether USB IDs without quotes are decimal numbers, as squat's plugin reads them in files.
        is_file: whether squat's plugin would read them so; it reads those of flags as ours does.
    """

    findings: ConfigFindings
    language: ConfigFormat
    has_decimal_ids: bool = False
    is_file: bool = False


class ValueShape(Protocol):
    """The values that a field takes."""

    def read(self, node: Node, path: FieldPath, context: ShapeContext) -> object:
        """The value, or `WRONG` after its problem has been noted."""
        ...

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """The JSON Schema of the value; schemas of objects go to ``definitions``."""
        ...


def refuse(node: Node, path: FieldPath, context: ShapeContext, wanted: str) -> Wrong:
    """Note that a value has the wrong type."""
    context.findings.error(node.spot, path, f"wants {wanted}, found {_what(node)}")
    return WRONG


def is_null(node: Node) -> bool:
    """Whether a field with this value counts as absent, as it does for squat's plugin."""
    return isinstance(node, Scalar) and node.kind is ScalarKind.NULL


def _what(node: Node) -> str:
    match node:
        case Scalar(kind=ScalarKind.NULL):
            return "nothing"
        case Scalar(kind=ScalarKind.TEXT, text=text):
            return f"the text {short(text)}"
        case Scalar(kind=ScalarKind.BOOLEAN, text=text):
            return f"the boolean {text}"
        case Scalar(text=text):
            return f"the number {text[:_SHOWN]}"
        case Series():
            return "a list"
        case _:
            return "a mapping"


@dataclass(frozen=True, slots=True)
class TextShape:
    """A text.

    Attributes:
        check: says what is wrong with a text; empty for nothing.
        takes_numbers: whether a number or a boolean is the text that its characters are.
        pattern: for the schema.
    """

    check: Callable[[str], str] = lambda _: ""
    takes_numbers: bool = False
    pattern: str = ""

    def read(self, node: Node, path: FieldPath, context: ShapeContext) -> object:
        """The text without blanks at its ends."""
        if not isinstance(node, Scalar) or node.kind is ScalarKind.NULL:
            return refuse(node, path, context, "a text")
        is_word = node.kind is ScalarKind.BOOLEAN and node.text.lower() not in ("true", "false")
        if node.kind is not ScalarKind.TEXT and not self.takes_numbers and not is_word:
            return refuse(node, path, context, f'a text (in quotes: "{node.text[:_SHOWN]}")')
        text = node.text if self.takes_numbers else node.text.strip()
        if problem := self.check(text):
            context.findings.error(node.spot, path, problem)
            return WRONG
        return text

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """A string, or a number where that is a text as well."""
        kind: object = ["string", "number", "boolean"] if self.takes_numbers else "string"
        return {"type": kind, **({"pattern": self.pattern} if self.pattern else {})}


@dataclass(frozen=True, slots=True)
class ChoiceShape:
    """One of several words, which are given with what they mean."""

    words: Mapping[str, str]
    fallback: str = ""
    """The word that the lenient take an unknown one for; without it an unknown word is an error to them, too."""

    def read(self, node: Node, path: FieldPath, context: ShapeContext) -> object:
        """The word, as it is spelt here."""
        if not isinstance(node, Scalar) or node.kind is ScalarKind.NULL:
            return refuse(node, path, context, f"one of {', '.join(self.words)}")
        text = node.text.strip()
        if text in self.words:
            return text
        if not text and self.fallback:
            return self.fallback
        problem = f"{short(text)} is none of {', '.join(self.words)}{suggestion(text, self.words)}"
        if not self.fallback:
            context.findings.error(node.spot, path, problem)
            return WRONG
        alike = next((each for each in self.words if each.lower() == text.lower()), self.fallback)
        context.findings.forgivable(node.spot, path, problem, instead=f"it is taken for {alike}")
        return alike

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """The words."""
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class FlagShape:
    """True or false."""

    def read(self, node: Node, path: FieldPath, context: ShapeContext) -> object:
        """The boolean."""
        if not isinstance(node, Scalar) or node.kind is not ScalarKind.BOOLEAN:
            return refuse(node, path, context, "true or false, without quotes")
        return node.text.lower() in ("true", "yes", "on", "y")

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """A boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class NumberShape:
    """A whole number, both bounds included."""

    least: int
    most: int

    def read(self, node: Node, path: FieldPath, context: ShapeContext) -> object:
        """The number."""
        wanted = f"a whole number from {self.least} to {self.most}, without quotes"
        if not isinstance(node, Scalar) or node.kind is not ScalarKind.INTEGER:
            return refuse(node, path, context, wanted)
        digits = node.text.removeprefix("+")
        if len(digits) > 1 and digits.startswith("0") and digits.isdigit():
            plain = digits.lstrip("0") or "0"
            problem = f"{node.text} is ambiguous: a number that begins with 0 is octal to some programs; write {plain}"
            context.findings.error(node.spot, path, problem)
            return WRONG
        try:
            number = int(digits.replace("_", "") if len(digits) < 40 else "-", 0)
        except ValueError:
            return refuse(node, path, context, wanted)
        return number if self.least <= number <= self.most else refuse(node, path, context, wanted)

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """An integer with its bounds."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class ListShape:
    """A list.

    Attributes:
        takes_one: whether a value that is not a list is a list of one.
        emptiness: says why it may not be empty; it may if this is empty.
        is_forgiven: whether the lenient may leave it empty nevertheless.
    """

    item: ValueShape
    takes_one: bool = False
    emptiness: str = ""
    is_forgiven: bool = False

    def read(self, node: Node, path: FieldPath, context: ShapeContext) -> object:
        """The items that can be read, as a tuple."""
        if not isinstance(node, Series):
            if self.takes_one and not is_null(node):
                one = self.item.read(node, path, context)
                return WRONG if one is WRONG else (one,)
            return refuse(node, path, context, 'a list, in brackets or with "- " before each item')
        if not node.items and self.emptiness:
            if self.is_forgiven:
                context.findings.forgivable(node.spot, path, self.emptiness, instead="it gives no device")
            else:
                context.findings.error(node.spot, path, self.emptiness)
                return WRONG
        read = [self.item.read(item, (*path, at), context) for at, item in enumerate(node.items)]
        sound = tuple(each for each in read if each is not WRONG)
        return WRONG if read and not sound else sound

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """An array, or one item where that is allowed."""
        item = self.item.schema(definitions)
        array = {"type": "array", "items": item, **({"minItems": 1} if self.emptiness else {})}
        return {"anyOf": [item, array]} if self.takes_one else array


@dataclass(frozen=True, slots=True)
class MappingShape:
    """A mapping whose keys are not fields, such as variables."""

    item: ValueShape
    check_key: Callable[[str], str] = lambda _: ""
    key_pattern: str = ""
    hints: Mapping[str, str] = field(default_factory=dict)

    def read(self, node: Node, path: FieldPath, context: ShapeContext) -> object:
        """The values by key, as a dict of those that can be read, each with its place."""
        if not isinstance(node, Keys):
            return refuse(node, path, context, "a mapping")
        read: dict[str, tuple[Spot, object]] = {}
        for entry in node.entries:
            here = (*path, entry.key)
            if problem := self.check_key(entry.key):
                context.findings.error(entry.spot, here, problem)
            elif entry.key in read:
                before = read[entry.key][0]
                context.findings.error(entry.spot, here, f"stands twice; the first one is in line {before.line}")
            elif is_null(entry.node):
                refuse(entry.node, here, context, "a value")
            else:
                value = self.item.read(entry.node, here, context)
                if value is not WRONG:
                    read[entry.key] = (entry.spot, value)
        return {key: value for key, (_, value) in read.items()}

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """An object of one kind of values."""
        names = {"propertyNames": {"pattern": self.key_pattern}} if self.key_pattern else {}
        return {"type": "object", "additionalProperties": self.item.schema(definitions), **names}
