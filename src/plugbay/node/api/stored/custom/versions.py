"""The checks of the versions that a CustomResourceDefinition has. Pure.

Source: Kubernetes 1.36 ``apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.errors import UsageError
from plugbay.node.api.field_selectors import SelectableField
from plugbay.node.api.stored.custom.scaling import definition_problems
from plugbay.node.api.stored.custom.schemas import schema_problems
from plugbay.objects.metadata import LABEL_RULE
from plugbay.objects.problems import FieldProblem, duplicate, invalid, not_supported, required
from plugbay.printers import v1
from plugbay.printers.jsonpath import JsonPath, parse_path

_VERSION: Final = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_NAME: Final = re.compile(r"\['(?P<quoted>[^']+)'\]|(?P<plain>[^.\[\]]+)")
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_SELECTABLE_TYPES: Final = ("boolean", "integer", "string")
_SELECTABLE_RULE: Final = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)
_MOST_SELECTABLE: Final = 8


def version_problems(spec: Json) -> Iterator[FieldProblem]:
    """Problems of the versions in the specification of a definition."""
    versions = v1.objects(spec, "versions")
    if sum(each.get("storage") is True for each in versions) != 1:
        yield invalid(
            "spec.versions",
            [v1.text(each, "name") for each in versions],
            "must have exactly one version marked as storage version",
        )
    seen: set[str] = set()
    for index, version in enumerate(versions):
        where, name = f"spec.versions[{index}]", v1.text(version, "name")
        if not _VERSION.fullmatch(name):
            yield invalid(f"{where}.name", name, LABEL_RULE)
        if name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)
        schema = v1.mapping(version, "schema", "openAPIV3Schema")
        yield from schema_problems(schema, f"{where}.schema.openAPIV3Schema")
        for at, column in enumerate(v1.objects(version, "additionalPrinterColumns")):
            yield from _column_problems(column, f"{where}.additionalPrinterColumns[{at}]")
        yield from _selectable_problems(version, schema, f"{where}.selectableFields")
        yield from definition_problems(version, where)


def selectable_in(version: Json) -> dict[str, SelectableField]:
    """The fields of its own kind that field selectors may name."""
    paths = [v1.text(each, "jsonPath").lstrip(".") for each in v1.objects(version, "selectableFields")]
    return {path: SelectableField((_steps(path),)) for path in paths}


def _selectable_problems(version: Json, schema: Json, path: str) -> Iterator[FieldProblem]:
    seen: set[str] = set()
    for at, each in enumerate(v1.objects(version, "selectableFields")):
        where, named = f"{path}[{at}].jsonPath", v1.text(each, "jsonPath")
        steps = _steps(named.lstrip("."))
        if not named:
            yield required(where)
        elif not named.startswith("."):
            yield invalid(where, named, "is an invalid path: it has to begin with a dot")
        elif steps[:1] == ("metadata",):
            yield invalid(where, named, "must not point to fields in metadata")
        elif (field := _schema_at(schema, steps)) is None:
            yield invalid(where, named, "is an invalid path: does not refer to a valid field")
        elif field.get("type") not in _SELECTABLE_TYPES:
            yield invalid(where, named, _SELECTABLE_RULE)
        elif named in seen:
            yield duplicate(where, named)
        seen.add(named)
    if len(seen) > _MOST_SELECTABLE:
        many = f"Too many: {len(seen)}: must have at most {_MOST_SELECTABLE} items"
        yield FieldProblem("FieldValueTooMany", path, many)


def _schema_at(schema: Json, steps: tuple[str, ...]) -> Json | None:
    for step in steps:
        known = v1.mapping(schema, "properties")
        if step not in known:
            return None
        schema = v1.mapping(known, step)
    return schema


def _steps(path: str) -> tuple[str, ...]:
    """The names of a path without arrays, which may stand in brackets and quotes."""
    return tuple(found["plain"] or found["quoted"] for found in _NAME.finditer(path))


def _column_problems(column: Json, path: str) -> Iterator[FieldProblem]:
    if not v1.text(column, "name"):
        yield required(f"{path}.name")
    if (kind := v1.text(column, "type")) not in _COLUMN_TYPES:
        yield not_supported(f"{path}.type", kind, _COLUMN_TYPES)
    where, named = f"{path}.jsonPath", v1.text(column, "jsonPath")
    if not named:
        yield required(where)
    elif not named.startswith("."):
        yield invalid(where, named, "must be a simple json path starting with .")


def column_path(column: Json) -> JsonPath | None:
    """The path of a printer column; None if it is not one that plugbay knows: the column stays empty."""
    try:
        return parse_path(v1.text(column, "jsonPath"))
    except UsageError:
        return None


def column_remarks(version: Json) -> Iterator[str]:
    """Warnings of the columns that stay empty."""
    for column in v1.objects(version, "additionalPrinterColumns"):
        if column_path(column) is None:
            named = f"column {v1.text(column, 'name')}: {v1.text(column, 'jsonPath')}"
            yield f"{named} is not a JSONPath that this node knows, and the column stays empty"
