"""Rows of kinds that nothing on a node acts on. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from plugbay.documents import Json
from plugbay.node.api.field_selectors import NO_FIELDS, SelectableFields
from plugbay.node.api.resources import ApiResource, StoredKind
from plugbay.node.api.stored.rows import row
from plugbay.objects.metadata import NameRule, subdomain_rule
from plugbay.objects.problems import FieldProblem
from plugbay.printers import tables
from plugbay.printers.tables import TableColumns

Problems: TypeAlias = "Callable[[Json, Json | None], Iterable[FieldProblem]]"
_WARNING: Final = "{kind} is stored, and nothing on this node acts on it"


def no_problems(value: Json, before: Json | None) -> Iterable[FieldProblem]:
    return ()


def _as_it_is(wanted: Json, before: Json | None) -> Json:
    return wanted


def inactive(
    api_version: str,
    plural: str,
    kind: str,
    *,
    is_namespaced: bool = True,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    columns: TableColumns = tables.PLAIN,
    has_status: bool = False,
    has_generation: bool = False,
    prepare: Callable[[Json, Json | None], Json] = _as_it_is,
    check: Problems = no_problems,
    name_rule: NameRule = subdomain_rule,
    creates_on_update: bool = False,
    fields: SelectableFields = NO_FIELDS,
) -> ApiResource:
    """The row of a kind that is stored for its readers only."""
    return row(
        api_version,
        plural,
        kind,
        stored=StoredKind(
            prepare=prepare,
            check=check,
            name_rule=name_rule,
            has_generation=has_generation,
            creates_on_update=creates_on_update,
            warning=_WARNING.format(kind=kind),
        ),
        is_namespaced=is_namespaced,
        short_names=short_names,
        categories=categories,
        columns=columns,
        fields=fields,
        has_status=has_status,
    )
