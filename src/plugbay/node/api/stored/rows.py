"""Rows of the table of kinds, for kinds that are stored as they are. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.node.api.field_selectors import NO_FIELDS, SelectableFields, selectable
from plugbay.node.api.resources import ApiResource, StoredKind, Subresource
from plugbay.objects.messages.fields import message_of, message_rule, object_table
from plugbay.printers import tables
from plugbay.printers.tables import TableColumns

VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
FIELDS: Final = selectable("metadata.name", "metadata.namespace")
CLUSTER_FIELDS: Final = selectable("metadata.name")


def row(
    api_version: str,
    plural: str,
    kind: str,
    *,
    stored: StoredKind,
    is_namespaced: bool = True,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    columns: TableColumns = tables.PLAIN,
    fields: SelectableFields = NO_FIELDS,
    subresources: tuple[Subresource, ...] = (),
    has_status: bool = False,
    verbs: tuple[str, ...] = VERBS,
) -> ApiResource:
    """The row of a stored kind.

    Args:
        api_version: such as ``v1`` or ``apps/v1``.
        fields: those that field selectors may name besides name and namespace.
        has_status: whether its status is written apart, as the subresource ``status``.
    """
    group, _, version = api_version.rpartition("/")
    status = Subresource("status", kind, ("get", "patch", "update"), group, version)
    return ApiResource(
        group,
        version,
        plural,
        kind.lower(),
        kind,
        is_namespaced,
        verbs,
        columns,
        {**(FIELDS if is_namespaced else CLUSTER_FIELDS), **fields},
        short_names,
        categories,
        (*subresources, status) if has_status else subresources,
        object_table(api_version, kind),
        message_rule(message_of(api_version, kind)),
        stored,
    )
