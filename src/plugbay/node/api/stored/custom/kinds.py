"""The rows of a custom kind, one for each version that is served. Pure.

Source: Kubernetes 1.36 ``apiextensions-apiserver/pkg/registry/customresource``,
``pkg/registry/customresource/tableconvertor``, ``pkg/controller/openapi/builder``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from plugbay.documents import Json
from plugbay.documents.go_json import compact
from plugbay.node.api.applying.typed.structural import structural_type
from plugbay.node.api.applying.typed.types import FieldType, VersionedType
from plugbay.node.api.resources import SCALE, ApiResource, StoredKind, Subresource
from plugbay.node.api.stored.custom.pruning import defaulted, pruned
from plugbay.node.api.stored.custom.scaling import scale_problems, scaled_in
from plugbay.node.api.stored.custom.structural import value_problems
from plugbay.node.api.stored.custom.versions import column_path, selectable_in
from plugbay.node.api.stored.rows import CLUSTER_FIELDS, FIELDS, VERBS
from plugbay.printers import tables, v1
from plugbay.printers.ages import age
from plugbay.printers.jsonpath import JsonPath, find_all
from plugbay.printers.tables import NAME, Cell, Column, TableColumns

_GENERATIONS: Final = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STAGES: Final = {"alpha": 0, "beta": 1, None: 2}
_METADATA: Final[Json] = {"type": "object", "description": "The metadata of the object."}
_TEXT: Final[Json] = {"type": "string"}


def custom_kinds(definition: Json) -> list[ApiResource]:
    """The rows of the versions that a definition serves, the one that clients should prefer first."""
    versions = [each for each in v1.objects(definition, "spec", "versions") if each.get("served") is True]
    group = v1.text(definition, "spec", "group")
    types = {f"{group}/{v1.text(each, 'name')}": structural_type(_schema(each)) for each in versions}
    return [_row(definition, each, types) for each in sorted(versions, key=_preference)]


def _schema(version: Json) -> Json:
    return v1.mapping(version, "schema", "openAPIV3Schema")


def _preference(version: Json) -> tuple[int, int, int, str]:
    """Stable versions before beta and alpha ones, new ones before old ones, other names last.

    Source: Kubernetes 1.36 ``apimachinery/pkg/version/helpers.go``, ``CompareKubeAwareVersionStrings``.
    """
    name = v1.text(version, "name")
    found = _GENERATIONS.fullmatch(name)
    if found is None:
        return 1, 0, 0, name
    major, stage, minor = found.groups()
    return -_STAGES[stage], -int(major), -int(minor or 0), name


def _row(definition: Json, version: Json, types: Mapping[str, FieldType]) -> ApiResource:
    spec = v1.mapping(definition, "spec")
    names, name = v1.mapping(spec, "names"), v1.text(version, "name")
    group, kind = v1.text(spec, "group"), v1.text(names, "kind")
    schema = _schema(version)
    is_namespaced = v1.text(spec, "scope") == "Namespaced"
    status = Subresource("status", kind, ("get", "patch", "update"), group, name)
    scaled = scaled_in(version)
    deprecated = f"{group}/{name} {kind} is deprecated" if version.get("deprecated") is True else ""
    return ApiResource(
        group,
        name,
        v1.text(names, "plural"),
        v1.text(names, "singular"),
        kind,
        is_namespaced,
        VERBS,
        _columns(version),
        {**(FIELDS if is_namespaced else CLUSTER_FIELDS), **selectable_in(version)},
        tuple(v1.texts(names, "shortNames")),
        tuple(v1.texts(names, "categories")),
        (*((status,) if "status" in v1.mapping(version, "subresources") else ()), *((SCALE,) if scaled else ())),
        merging=None,
        custom=VersionedType(f"{group}/{name}", types),
        described=_described(schema),
        stored=StoredKind(
            prepare=lambda wanted, before: defaulted(wanted, schema),
            check=lambda value, before: (*value_problems(value, schema, before), *scale_problems(value, scaled)),
            prune=lambda value: pruned(value, schema),
            has_generation=True,
            needs_version=True,
            warning=v1.text(version, "deprecationWarning") or deprecated,
            scaled=scaled,
        ),
    )


def _described(schema: Json) -> Json:
    """The schema of the definition, with what every object has."""
    identity: Json = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _METADATA}
    return schema | {"properties": v1.mapping(schema, "properties") | identity}


def _columns(version: Json) -> TableColumns:
    described = v1.objects(version, "additionalPrinterColumns")
    if not described:
        return tables.PLAIN
    shown = tuple(_column(each) for each in described)
    paths = [(column_path(each), v1.text(each, "type")) for each in described]

    def cells(value: Json, now: datetime) -> Sequence[Cell]:
        return (v1.name(value), *(_cell(_first(value, path), kind, now) for path, kind in paths))

    return TableColumns((NAME, *shown), cells)


def _column(column: Json) -> Column:
    return Column(
        v1.text(column, "name"),
        v1.text(column, "description")
        or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
        is_wide=v1.number(column, "priority") > 0,
        kind=v1.text(column, "type"),
        form=v1.text(column, "format"),
    )


def _first(value: Json, path: JsonPath | None) -> object:
    return None if path is None else next(iter(find_all(value, path)), None)


def _cell(found: object, kind: str, now: datetime) -> Cell:
    """A value as a column of its type shows it; a value of another type is not shown."""
    if found is None:
        return None
    match kind:
        case "string":
            return found if isinstance(found, str) else compact(found, sort_keys=True)
        case "date":
            since = v1.moment({"at": found}, "at")
            return (age(since, now) if since else "<invalid>") if isinstance(found, str) else None
        case "boolean":
            return found if isinstance(found, bool) else None
        case _:
            if isinstance(found, bool) or not isinstance(found, int | float):
                return None
            return int(found) if kind == "integer" else found
