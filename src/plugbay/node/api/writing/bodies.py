"""The bodies of requests as JSON values, in whichever of an API server's forms they come."""

from __future__ import annotations

from typing import Final

from plugbay.documents.sound_json import UnsoundJson, check_json, repeated_fields
from plugbay.errors import InvalidDocument
from plugbay.ops.routing import HttpError, Request

_ACCEPTED: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


def body_of(request: Request) -> object:
    """The body as a JSON value.

    Raises:
        HttpError: 415, it is in a form that is not taken; 400, it is not what it says to be.
    """
    value = _read(request)
    try:
        check_json(value)
    except UnsoundJson as error:
        raise HttpError(400, "BadRequest", f"the request body cannot be kept: {error}") from None
    return value


def repeated_in(request: Request) -> tuple[str, ...]:
    """The fields that stand twice in one object of a JSON body, which has been read."""
    return () if _media(request) in _ACCEPTED[1:] else repeated_fields(request.body)


def _media(request: Request) -> str:
    """The form of the body; JSON where none is named."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() or "application/json"


def _read(request: Request) -> object:
    match media := _media(request):
        case "application/json":
            return request.json()
        case "application/vnd.kubernetes.protobuf":
            return _of_protobuf(request.body)
        case "application/yaml":
            return _of_yaml(request.body)
        case _:
            accepted = ", ".join(_ACCEPTED)
            problem = f"the body of the request is {media}; the media types that are accepted are {accepted}"
            raise HttpError(415, "UnsupportedMediaType", problem)


def _of_protobuf(body: bytes) -> object:
    from plugbay.objects.messages.protobuf import UnreadableMessage, object_of  # many nodes are never sent any

    try:
        return object_of(body)
    except UnreadableMessage as error:
        raise HttpError(400, "BadRequest", str(error)) from None


def _of_yaml(body: bytes) -> object:
    from plugbay.documents.texts import read_documents  # PyYAML: most clients send JSON

    try:
        documents = [each.value for each in read_documents(body.decode(), source="")]
    except (InvalidDocument, UnicodeDecodeError) as error:
        raise HttpError(400, "BadRequest", f"the request body is not YAML in UTF-8: {error}") from None
    if len(documents) != 1:
        raise HttpError(400, "BadRequest", f"the request body holds {len(documents)} objects, and not one")
    return documents[0]
