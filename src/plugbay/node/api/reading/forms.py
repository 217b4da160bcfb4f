"""Objects in the form that a client wants: whole, as rows of a table, or their metadata only. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.reading.items import ApiItem
from plugbay.node.api.reading.negotiation import MediaForm
from plugbay.node.api.resources import ApiResource
from plugbay.printers import v1

_META: Final = "meta.k8s.io/v1"


class Included(Enum):
    """The part of each object that rows of a table hold (``includeObject``)."""

    METADATA = "Metadata"
    OBJECT = "Object"
    NONE = "None"


def list_body(resource: ApiResource, items: Iterable[ApiItem], metadata: Json) -> bytes:
    """A list of whole objects, such as a PodList."""
    head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
    return b'%s, "items": [%s]}\n' % (json.dumps(head).encode()[:-1], b", ".join(item.encoded for item in items))


def metadata_list(items: Iterable[ApiItem], metadata: Json) -> Json:
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": _META,
        "metadata": metadata,
        "items": [metadata_only(item) for item in items],
    }


def metadata_only(item: ApiItem) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": item.value["metadata"]}


def table(
    resource: ApiResource, items: Iterable[ApiItem], now: datetime, metadata: Json, *, included: Included, titled: bool
) -> Json:
    """A Table with a row for each object.

    Args:
        titled: whether it defines its columns: the first one of a watch does, the later ones need not.
    """
    columns = resource.columns
    return {
        "kind": "Table",
        "apiVersion": _META,
        "metadata": metadata,
        "columnDefinitions": [each.definition() for each in columns.columns] if titled else None,
        "rows": [{"cells": list(columns.cells(item.value, now)), "object": _of_row(item, included)} for item in items],
    }


def _of_row(item: ApiItem, included: Included) -> Json | None:
    match included:
        case Included.OBJECT:
            return item.value
        case Included.METADATA:
            return metadata_only(item)
        case Included.NONE:
            return None


def in_form(
    resource: ApiResource, item: ApiItem, form: MediaForm, now: datetime, *, included: Included, titled: bool = True
) -> Json:
    """One object."""
    match form:
        case MediaForm.TABLE:
            metadata: Json = {"resourceVersion": v1.text(item.value, "metadata", "resourceVersion")}
            return table(resource, [item], now, metadata, included=included, titled=titled)
        case MediaForm.METADATA | MediaForm.METADATA_LIST:
            return metadata_only(item)
        case MediaForm.OBJECTS:
            return item.value
