"""The form in which a client wants objects, by its ``Accept`` header. Pure.

Source: apiserver 1.36 ``pkg/endpoints/handlers/negotiation``, ``rest.go`` (``transformResponseObject``).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from plugbay.ops.routing import JSON, HttpError

YAML: Final = "application/yaml"
_WILDCARDS: Final = ("*/*", "application/*")


class MediaForm(Enum):
    """The forms that lists and objects are given in."""

    OBJECTS = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


def prefers_yaml(accept: str) -> bool:
    """Whether ``accept`` names YAML before anything that JSON would do for."""
    kinds = (each.partition(";")[0].strip() for each in accept.split(","))
    return next((each for each in kinds if each in (JSON, YAML, *_WILDCARDS)), JSON) == YAML


def wanted_form(accept: str, *, is_stream: bool = False) -> MediaForm:
    """The first form in ``accept`` that there is; an empty header wants objects.

    Args:
        is_stream: whether the answer is a stream, which has no other format than JSON.

    Raises:
        HttpError: 406, there is none.
    """
    formats = (JSON, *_WILDCARDS) if is_stream else (JSON, YAML, *_WILDCARDS)
    for media in filter(None, (each.strip() for each in (accept or "*/*").split(","))):
        kind, *parameters = (part.strip() for part in media.split(";"))
        if kind not in formats:
            continue
        values = dict(part.partition("=")[::2] for part in parameters)
        if values.get("stream", "watch") != "watch":
            continue
        if (form := _form(values)) is not None:
            return form
    raise HttpError(
        406,
        "NotAcceptable",
        f"only the following media types are accepted: {', '.join(formats[:-2])}, "
        "application/json;as=Table;v=v1;g=meta.k8s.io, application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
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
