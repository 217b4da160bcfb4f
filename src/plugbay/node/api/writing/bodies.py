"""The bodies of requests: JSON, whatever a client calls it, but no other form of objects. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.ops.routing import HttpError, Request

_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_OTHERS: Final = ("application/cbor", "application/yaml", _PROTOBUF)


def is_protobuf(request: Request) -> bool:
    return _media_type(request) == _PROTOBUF


def body_of(request: Request) -> object:
    """The body as JSON.

    Raises:
        HttpError: 415, it is in another form of objects; 400, it is not JSON.
    """
    if (media := _media_type(request)) in _OTHERS:
        problem = f"the body of the request is {media}; the only media type that is accepted is application/json"
        raise HttpError(415, "UnsupportedMediaType", problem)
    return request.json()


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip()
