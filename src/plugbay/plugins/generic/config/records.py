"""Mappings with known fields: the fields are found whatever the case of their keys, and unknown ones are told. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, TypeVar

from plugbay.plugins.generic.config.nodes import Keyed, Keys, Node, Scalar
from plugbay.plugins.generic.config.problems import suggestion
from plugbay.plugins.generic.config.shapes import (
    WRONG,
    Definitions,
    FieldPath,
    ShapeContext,
    ValueShape,
    is_null,
    refuse,
)
from plugbay.plugins.generic.config.spots import NOWHERE, Spot
from plugbay.values import dataclass

Value = TypeVar("Value")

_REF: Final = "#/$defs/"


@dataclass(frozen=True, slots=True)
class ConfigField:
    """A field of a record.

    Attributes:
        help: for the schema, and so for editors: what it does, its unit, its default.
        aliases: other keys for it.
    """

    name: str
    shape: ValueShape
    help: str
    aliases: tuple[str, ...] = ()
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping as it was read.

    Attributes:
        values: of the fields that are there and can be read, by the fields' names.
        spots: of the keys of all fields that are there, those that cannot be read too.
    """

    values: Mapping[str, object]
    spots: Mapping[str, Spot]
    spot: Spot
    path: FieldPath

    def has(self, name: str) -> bool:
        """Whether the field stands there, even if it cannot be read."""
        return name in self.spots

    def get(self, name: str, kind: type[Value], default: Value) -> Value:
        """The value of a field, which has the type that the field's shape gives."""
        value = self.values.get(name, default)
        assert isinstance(value, kind)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(each for each in self.get(name, tuple, ()) if isinstance(each, str))

    def records(self, name: str) -> tuple[Record, ...]:
        """A list of records."""
        return tuple(each for each in self.get(name, tuple, ()) if isinstance(each, Record))

    def record(self, name: str) -> Record | None:
        """A record; None if it is not there."""
        value = self.values.get(name)
        return value if isinstance(value, Record) else None

    def spot_of(self, name: str) -> Spot:
        """The place of the field's key, or of the record."""
        return self.spots.get(name, self.spot)


@dataclass(frozen=True, slots=True)
class RecordShape:
    """A mapping with these fields.

    Attributes:
        name: of the schema's definition.
        fields: a function, as records may hold records of their own kind.
        short: the field that a value stands for which is not a mapping; empty if there is none.
        elsewhere: what to do about keys that are fields of something else, or words for a field of this.
        emptiness: says why there has to be a field; there need not be one if this is empty.
        alternatives: fields of which exactly one may be there, for the schema; a reader says so in words of its own.
        wanted: says what a value that is none of these should be.
    """

    name: str
    help: str
    fields: Callable[[], tuple[ConfigField, ...]]
    short: str = ""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    emptiness: str = ""
    alternatives: tuple[str, ...] = ()
    wanted: str = "a mapping"

    def read(self, node: Node, path: FieldPath, context: ShapeContext) -> object:
        """A `Record`."""
        if isinstance(node, Scalar) and self.short and not is_null(node):
            node = Keys((Keyed(self.short, node.spot, node),), node.spot)
        if not isinstance(node, Keys):
            return refuse(node, path, context, self.wanted)
        known = {key.lower(): each for each in self.fields() for key in (each.name, *each.aliases)}
        values: dict[str, object] = {}
        spots: dict[str, Spot] = {}
        for entry in node.entries:
            here = (*path, entry.key)
            found = known.get(entry.key.lower())
            if found is None:
                self._refuse_unknown(entry, here, context)
            elif found.name in spots:
                before = spots[found.name]
                context.findings.error(entry.spot, here, f"stands twice; the first one is in line {before.line}")
            elif not is_null(entry.node):
                spots[found.name] = entry.spot
                value = found.shape.read(entry.node, here, context)
                if value is not WRONG:
                    values[found.name] = value
        for each in self.fields():
            if each.is_required and each.name not in spots:
                context.findings.error(node.spot, path, f"has no {each.name}, which it needs")
        if self.emptiness and not spots:
            if context.findings.is_lenient or all(is_null(each.node) for each in node.entries):  # else it is told
                context.findings.error(node.spot, path, self.emptiness)
            return WRONG
        return Record(values, spots, node.spot, path)

    def _refuse_unknown(self, entry: Keyed, path: FieldPath, context: ShapeContext) -> None:
        names = [each.name for each in self.fields()]
        hint = self.elsewhere.get(entry.key.lower())
        ending = f"; {hint}" if hint else suggestion(entry.key, names) or f"; known are {', '.join(names)}"
        context.findings.forgivable(entry.spot, path, f"is not a known field{ending}", instead="it is ignored")

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """A reference to the definition."""
        if self.name not in definitions:
            own: dict[str, Any] = {"type": "object", "description": self.help}
            definitions[self.name] = own
            properties: dict[str, Any] = {}
            for each in self.fields():
                described = {"description": each.help, **each.shape.schema(definitions)}
                properties |= dict.fromkeys((each.name, *each.aliases), described)
            own["properties"] = properties
            own["additionalProperties"] = False
            if required := [each.name for each in self.fields() if each.is_required]:
                own["required"] = required
            if self.emptiness:
                own["minProperties"] = 1
            if self.alternatives:
                own["oneOf"] = [{"required": [name]} for name in self._alternative_keys()]
        reference = {"$ref": f"{_REF}{self.name}"}
        if not self.short:
            return reference
        shape = next(each.shape for each in self.fields() if each.name == self.short)
        return {"anyOf": [reference, shape.schema(definitions)]}

    def _alternative_keys(self) -> list[str]:
        return [key for each in self.fields() if each.name in self.alternatives for key in (each.name, *each.aliases)]


NO_RECORD: Final = Record({}, {}, NOWHERE, ())
