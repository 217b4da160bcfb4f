"""Requests, responses, and which handler answers what: HTTP without sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import field
from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from plugbay.documents.sound_json import UnsoundJson, read_json
from plugbay.values import dataclass

JSON: Final = "application/json"

TRUE_WORDS: Final = ("true", "True", "1", "")
"""The values of a flag in a query that is set."""
_Headers = tuple[tuple[str, str], ...]


class HttpError(Exception):
    """Raised by a handler to answer with a Kubernetes ``Status``; it never leaves the server.

    Attributes:
        status: 400 to 599.
        reason: a machine-readable word, as ``metav1.StatusReason``: ``NotFound``, ``AlreadyExists``, ``Conflict``.
        message: a sentence for people.
        details: the object, the field or the delay that it is about, as ``metav1.StatusDetails``.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        headers: _Headers = (),
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(status, reason, message)
        self.details = details
        self.status = status
        self.reason = reason
        self.message = message
        self.headers = headers


@dataclass(frozen=True, slots=True)
class Request:
    """One request, read whole.

    Attributes:
        path: decoded, without the query.
        params: what the template's ``{names}`` stand for, decoded.
        query: of a key given twice, the last value; `values` has all.
        pairs: the query as it was sent.
        headers: keys in lower case; of a header given twice, the values joined by a comma.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    params: Mapping[str, str] = field(default_factory=dict)
    pairs: tuple[tuple[str, str], ...] = ()

    def values(self, name: str) -> list[str]:
        """All values of a key of the query, in their order."""
        return [value for key, value in self.pairs if key == name]

    def json(self) -> object:
        """The body as JSON.

        Raises:
            HttpError: 400, when it is not, or not such that it can be kept.
        """
        try:
            return read_json(self.body)
        except UnsoundJson as error:
            raise HttpError(400, "BadRequest", f"the request body is not JSON in UTF-8: {error}") from None


@dataclass(frozen=True, slots=True)
class Response:
    """A response that is complete before it is sent."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: _Headers = ()


@dataclass(frozen=True, slots=True)
class StreamResponse:
    """A response with status 200, sent as it is made; its connection serves no further request.

    Attributes:
        chunks: each is sent at once, a large one piece by piece. Closed (``aclose``) when all is sent, when the client
            goes, when the server stops.
        write_s: how long a client may leave what was sent to it; None for as long as it likes, as one that shows a log
            in a terminal that was stopped.
    """

    chunks: AsyncIterator[bytes]
    content_type: str = "text/plain; charset=utf-8"
    headers: _Headers = ()
    write_s: float | None = None


class UpgradedStream(Protocol):
    """The bytes of a connection that speaks HTTP no more."""

    async def read(self) -> bytes:
        """Wait for bytes from the client and return them; empty once the client has ended its side."""
        ...

    async def write(self, chunk: bytes) -> None:
        """Send; returns when the kernel has taken it.

        Raises:
            ConnectionError: the client is gone.
        """
        ...

    async def until_gone(self) -> None:
        """Wait until the client has ended its side; there may still be bytes to read then."""
        ...


@dataclass(frozen=True, slots=True)
class UpgradeResponse:
    """Switches the connection to another protocol, which the client must have asked for (``Upgrade: PROTOCOL``).

    Attributes:
        serve: speaks it; the connection is closed when it returns. Cancelled when the server stops.
    """

    protocol: str
    serve: Callable[[UpgradedStream], Awaitable[None]]
    headers: _Headers = ()


Answer = Response | StreamResponse | UpgradeResponse
Handler = Callable[[Request], Awaitable[Answer]]


def json_response(value: object, *, status: int = 200) -> Response:
    """``value``, made of dicts, lists and scalars, as JSON with a line end for people at a terminal."""
    return Response(status, json.dumps(value).encode() + b"\n", JSON)


def error_response(error: HttpError) -> Response:
    """The Kubernetes ``Status`` for an error, as a response."""
    return Response(error.status, json.dumps(error_status(error)).encode() + b"\n", JSON, error.headers)


def error_status(error: HttpError) -> dict[str, object]:
    """The Kubernetes ``Status`` for an error.

    Source: Kubernetes 1.36 ``apimachinery/pkg/apis/meta/v1/types.go``.
    """
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        **({} if error.details is None else {"details": error.details}),
        "code": error.status,
    }


def parse_target(target: str) -> tuple[str, list[tuple[str, str]]]:
    """Path (still percent-encoded) and query of a request target.

    Raises:
        HttpError: 400, when it is neither a path nor a URL.
    """
    try:
        parts = urlsplit(target if not target.startswith("//") else "/" + target.lstrip("/"))
        query = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=1000)
    except ValueError as error:
        raise HttpError(400, "BadRequest", f"the request target is malformed: {error}") from None
    if not parts.path.startswith("/"):
        raise HttpError(400, "BadRequest", "the request target must be a path")
    return parts.path, query


@dataclass(frozen=True, slots=True)
class _Route:
    segments: tuple[str, ...]
    methods: dict[str, Handler]

    def match(self, segments: list[str]) -> dict[str, str] | None:
        if len(segments) != len(self.segments):
            return None
        params: dict[str, str] = {}
        for wanted, segment in zip(self.segments, segments, strict=True):
            if wanted.startswith("{"):
                if not segment:
                    return None
                params[wanted[1:-1]] = unquote(segment)
            elif wanted != unquote(segment):
                return None
        return params


class Router:
    """Handlers by method and path template; a template added earlier wins.

    A ``{name}`` in a template stands for one whole segment, not empty. HEAD is answered by the handler of GET. For both
    a slash at the end of a path says nothing, as with an API server; for others it would make one object all objects.
    """

    def __init__(self) -> None:
        self._routes: dict[tuple[str, ...], _Route] = {}

    def add(self, method: str, template: str, handler: Handler) -> None:
        """Let ``handler`` answer ``method`` on paths of the shape ``template``."""
        segments = tuple(template.split("/"))
        methods = self._routes.setdefault(segments, _Route(segments, {})).methods
        if method in methods:
            raise ValueError(f"{method} {template} has a handler already")
        methods[method] = handler

    def find(self, method: str, path: str) -> tuple[Handler, dict[str, str]]:
        """The handler for a path (percent-encoded) and what its template's names stand for.

        Raises:
            HttpError: 404 when no template fits, 405 with ``Allow`` when one fits with other methods.
        """
        segments = segments_of(method, path)
        allowed: set[str] = set()
        for route in self._routes.values():
            params = route.match(segments)
            if params is None:
                continue
            handler = route.methods.get(method) or (route.methods.get("GET") if method == "HEAD" else None)
            if handler is not None:
                return handler, params
            allowed |= route.methods.keys()
        if not allowed:
            raise HttpError(404, "NotFound", "the server could not find the requested resource", details={})
        if "GET" in allowed:
            allowed.add("HEAD")
        allow = (("Allow", ", ".join(sorted(allowed))),)
        raise HttpError(405, "MethodNotAllowed", f"{path} does not support {method}", headers=allow, details={})


def segments_of(method: str, path: str) -> list[str]:
    """The segments of a path (percent-encoded) for a method; the first one is empty. See `Router`."""
    segments = path.split("/")
    if method in ("GET", "HEAD") and len(segments) > 2 and not segments[-1]:
        del segments[-1]
    return segments


def phrase(status: int) -> str:
    """The reason phrase for a status code, empty for one without."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
