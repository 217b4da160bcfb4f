"""The types of values, as far as merging asks: what is one field, what is merged, what tells the items of a list apart.

Source: structured-merge-diff v6 ``schema/elements.go``; kube-openapi ``pkg/schemaconv/smd.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from plugbay.documents import Json


class ScalarType(Enum):
    """The values that are neither lists nor mappings; the names are those that errors use."""

    NUMERIC = "numeric"
    STRING = "string"
    BOOLEAN = "boolean"
    ANY = "untyped"


class ListMerge(Enum):
    """The way in which a list is merged."""

    ATOMIC = auto()
    """It is replaced whole, and owned whole."""
    SET = auto()
    """Its items are plain values, each owned by itself."""
    KEYED = auto()
    """Its items are mappings told apart by some of their fields."""


class Others(Enum):
    """The type of the keys of a mapping that no field is declared for."""

    NONE = auto()
    """There are none: another key is an error."""
    DEDUCED = auto()
    """`DEDUCED`."""
    STRUCT = auto()
    """`STRUCT`; they are fields as well."""


@dataclass(frozen=True, slots=True, eq=False)
class ListType:
    """A list.

    Attributes:
        keys: of a keyed one, the fields of its items that tell them apart.
        defaults: the values of keys that an item may leave out.
    """

    merge: ListMerge = ListMerge.ATOMIC
    item: FieldType | None = None
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class MapType:
    """A mapping: an object with declared fields, or one whose keys the author chooses.

    Attributes:
        others: the type of keys that are not among the fields.
    """

    fields: Mapping[str, FieldType] = field(default_factory=dict)
    others: FieldType | Others = Others.NONE
    is_atomic: bool = False

    def is_field(self, name: str) -> bool:
        """Whether a key is a declared field; only other keys are owned by themselves, besides what is in them."""
        return name in self.fields or self.others is Others.STRUCT

    def at(self, name: str) -> FieldType | None:
        """The type of the value at a key; None if there is no such key."""
        if (found := self.fields.get(name)) is not None:
            return found
        match self.others:
            case Others.NONE:
                return None
            case Others.DEDUCED:
                return DEDUCED
            case Others.STRUCT:
                return STRUCT
            case other:
                return other


@dataclass(frozen=True, slots=True, eq=False)
class FieldType:
    """A type: at least one of what a value may be."""

    scalar: ScalarType | None = None
    list: ListType | None = None
    map: MapType | None = None


@dataclass(frozen=True, slots=True, eq=False)
class VersionedType:
    """The type of a kind of objects, in each version that is served; the versions differ in nothing else.

    Attributes:
        version: the ``apiVersion`` that the client writes.
        before: what there is of a new object before anybody wrote it.
    """

    version: str
    types: Mapping[str, FieldType]
    before: Json = field(default_factory=dict)

    @property
    def type(self) -> FieldType:
        return self.types[self.version]


SCALAR: Final = FieldType(ScalarType.ANY)
ATOMIC: Final = FieldType(ScalarType.ANY, ListType(), MapType(others=Others.DEDUCED, is_atomic=True))
"""Any value, owned whole."""
DEDUCED: Final = FieldType(ScalarType.ANY, ListType(), MapType(others=Others.DEDUCED))
"""A value that no schema describes: mappings are merged, lists are owned whole."""
STRUCT: Final = FieldType(ScalarType.ANY, ListType(), MapType(others=Others.STRUCT))
"""A part of a built-in kind with nothing special in it: like `DEDUCED`, but its keys are declared fields."""
VALUE_SET: Final = FieldType(list=ListType(ListMerge.SET, SCALAR))


def struct(**fields: FieldType) -> FieldType:
    """An object of a built-in kind; fields that are not named here are `STRUCT`."""
    return FieldType(map=MapType(fields, Others.STRUCT))


def map_of(value: FieldType) -> FieldType:
    """A mapping whose keys the author chooses."""
    return FieldType(map=MapType(others=value))


def keyed(item: FieldType, **keys: object) -> FieldType:
    """A list of mappings told apart by ``keys``, whose values are what an item without them has; None is nothing."""
    defaults = {name: value for name, value in keys.items() if value is not None}
    return FieldType(list=ListType(ListMerge.KEYED, item, tuple(keys), defaults))
