"""The checks of the versions that a CustomResourceDefinition has. Pure.

Source: Kubernetes 1.36 ``apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.errors import UsageError
from plugbay.node.api.stored.custom.schemas import schema_problems
from plugbay.objects.metadata import LABEL_RULE
from plugbay.objects.problems import FieldProblem, duplicate, invalid, not_supported, required
from plugbay.printers import v1
from plugbay.printers.jsonpath import parse_path

_VERSION: Final = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")


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


def _column_problems(column: Json, path: str) -> Iterator[FieldProblem]:
    if not v1.text(column, "name"):
        yield required(f"{path}.name")
    if (kind := v1.text(column, "type")) not in _COLUMN_TYPES:
        yield not_supported(f"{path}.type", kind, _COLUMN_TYPES)
    try:
        parse_path(v1.text(column, "jsonPath"))
    except UsageError as error:
        yield invalid(f"{path}.jsonPath", v1.text(column, "jsonPath"), str(error))
