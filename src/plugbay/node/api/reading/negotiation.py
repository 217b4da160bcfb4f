"""The form in which a client wants objects, by its ``Accept`` header. Pure.

Source: apiserver 1.36 ``pkg/endpoints/handlers/negotiation``, ``rest.go`` (``transformResponseObject``).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from plugbay.ops.routing import HttpError

_WILDCARDS: Final = ("*/*", "application/*")


class MediaForm(Enum):
    """The forms that lists and objects are given in."""

    OBJECTS = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


def wanted_form(accept: str) -> MediaForm:
    """The first form in ``accept`` that there is; an empty header wants objects.

    Raises:
        HttpError: 406, there is none.
    """
    for media in filter(None, (each.strip() for each in (accept or "*/*").split(","))):
        kind, *parameters = (part.strip() for part in media.split(";"))
        if kind != "application/json" and kind not in _WILDCARDS:
            continue
        values = dict(part.partition("=")[::2] for part in parameters)
        if values.get("stream", "watch") != "watch":
            continue
        if (form := _form(values)) is not None:
            return form
    raise HttpError(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/json;as=Table;v=v1;g=meta.k8s.io, "
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    )


def _form(values: dict[str, str]) -> MediaForm | None:
    if "as" not in values:
        return MediaForm.OBJECTS
    if values.get("g") != "meta.k8s.io" or values.get("v") not in ("v1", "v1beta1"):
        return None
    try:
        return MediaForm(values["as"])
    except ValueError:
        return None
