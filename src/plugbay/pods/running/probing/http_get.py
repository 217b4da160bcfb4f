"""GET requests of probes and hooks: what Go's client would send, and how it would tell of a failure.

Source: kubelet 1.36 ``pkg/probe/http/request.go``, ``http.go``; Go 1.24 ``net/http``.
"""

from __future__ import annotations

import asyncio
import os
import re
import string
from dataclasses import replace
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

import h11

from plugbay.errors import quote as quote_go
from plugbay.model.actions import HttpGetAction, HttpScheme
from plugbay.pods.running.probing.dialing import dial, dial_problem, host_port, speaks_plain_http
from plugbay.values import dataclass

KUBELET: Final = "1.36"
"""The version of Kubernetes that requests name."""
_MAX_BODY_BYTES: Final = 10 * 1024
_MAX_HEAD_BYTES: Final = 1024 * 1024
_READ_BYTES: Final = 16 * 1024
_MAX_REDIRECTS: Final = 10
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SAFE: Final = "/%:@!$&'()*+,;=~-._[]"
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_AWAITED: Final = "Client.Timeout exceeded while awaiting headers"
_IN_BODY: Final = "Client.Timeout or context cancellation while reading body"


class HttpGetFailed(Exception):
    """No answer came, or not all of it; it never leaves probes and hooks.

    Attributes:
        problem: Go's words.
        is_plain: whether the server speaks HTTP where HTTPS was wanted.
        has_begun: whether the head of an answer had come.
    """

    def __init__(self, problem: str, *, is_plain: bool = False, has_begun: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.is_plain = is_plain
        self.has_begun = has_begun


@dataclass(frozen=True, slots=True)
class GetRequest:
    """A request, ready to be sent.

    Attributes:
        target: the path with its query, escaped.
        headers: in the order in which they are sent; ``Host`` is the first.
    """

    scheme: HttpScheme
    host: str
    port: int
    target: str
    headers: tuple[tuple[str, str], ...]

    @property
    def url(self) -> str:
        return f"{self.scheme.value.lower()}://{host_port(self.host, self.port)}{self.target}"


@dataclass(frozen=True, slots=True)
class GetAnswer:
    """``body`` is at most its first 10 KiB."""

    status: int
    body: bytes


def request_of(action: HttpGetAction, *, host: str, port: int, purpose: str) -> GetRequest:
    """The request of an action.

    Args:
        host: the pod's address, for an action that names no host.
        purpose: ``probe`` or ``lifecycle``.
    """
    host = action.host or host
    given: dict[str, list[str]] = {}
    for name, value in action.headers:
        given.setdefault(string.capwords(name, "-"), []).append(value)
    for name, value in (("User-Agent", f"kube-{purpose}/{KUBELET}"), ("Accept", "*/*")):
        if name not in given:
            given[name] = [value]
        elif given[name][0] == "":
            del given[name]  # an empty one asks for none
    authority = (given.pop("Host", None) or [""])[0] or host_port(host, port)
    headers = [("Host", authority), *((name, value) for name in sorted(given) for value in given[name])]
    return GetRequest(action.scheme, host, port, _target(action.path), (*headers, ("Connection", "close")))


def _target(path: str) -> str:
    if _BROKEN_ESCAPE.search(path):
        return _rooted(quote(path, safe=_SAFE.replace("%", "")))
    parts = urlsplit(path)
    query = f"?{quote(parts.query, safe=f'{_SAFE}?')}" if "?" in path else ""
    return _rooted(quote(parts.path, safe=_SAFE)) + query


def _rooted(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"


async def get(request: GetRequest, *, timeout_s: float | None = None) -> GetAnswer:
    """Send a request and read the answer. Redirects are followed as long as they stay with the same host.

    Args:
        timeout_s: for all of it; None is without end.

    Raises:
        HttpGetFailed: no whole answer in time; with the address, as Go's client tells it.
    """
    until = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
    first_host = request.host
    for _ in range(_MAX_REDIRECTS):
        answer = await _exchange(request, until, first_host=first_host)
        if isinstance(answer, GetAnswer):
            return answer
        request = answer
    raise _failed(request, f"stopped after {_MAX_REDIRECTS} redirects")


async def _exchange(request: GetRequest, until: float | None, *, first_host: str) -> GetAnswer | GetRequest:
    """The answer to one request, or the request that it redirects to."""
    host, port = request.host, request.port
    try:
        async with asyncio.timeout_at(until):
            reader, writer = await dial(host, port, tls=request.scheme is HttpScheme.HTTPS)
    except OSError as error:
        problem = dial_problem(host, port, error)
        if isinstance(error, TimeoutError):
            problem = f"context deadline exceeded ({_AWAITED})"
        raise _failed(request, problem, is_plain=speaks_plain_http(error)) from error
    try:
        exchange = _Exchange(reader)
        async with asyncio.timeout_at(until):
            writer.write(exchange.sent(request))
            head = await exchange.head()
        if onward := _redirected(request, head, first_host=first_host):
            return onward
        try:
            async with asyncio.timeout_at(until):
                return GetAnswer(head.status_code, await exchange.body())
        except TimeoutError as error:
            problem = f"context deadline exceeded ({_IN_BODY})"
            raise HttpGetFailed(problem, has_begun=True) from error
        except (OSError, h11.RemoteProtocolError) as error:
            raise HttpGetFailed("unexpected EOF", has_begun=True) from error
    except TimeoutError as error:
        raise _failed(request, f"context deadline exceeded ({_AWAITED})") from error
    except OSError as error:
        problem = f"read tcp {host_port(host, port)}: read: {os.strerror(error.errno or 0).lower()}"
        raise _failed(request, problem) from error
    except h11.LocalProtocolError as error:
        raise _failed(request, f"net/http: the request cannot be sent: {error}") from error
    except h11.RemoteProtocolError as error:
        problem = f"net/http: HTTP/1.x transport connection broken: malformed HTTP response: {error}"
        raise _failed(request, "EOF" if exchange.is_silent else problem) from error
    finally:
        writer.transport.abort()


class _Exchange:
    """One request and its answer. Its methods raise `h11.ProtocolError` for what is not HTTP.

    Attributes:
        is_silent: whether nothing has come yet.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self.is_silent = True

    def sent(self, request: GetRequest) -> bytes:
        headers = [(name.encode(), value.strip().encode()) for name, value in request.headers]
        head = self._http.send(h11.Request(method="GET", target=request.target, headers=headers))
        return (head or b"") + (self._http.send(h11.EndOfMessage()) or b"")

    async def head(self) -> h11.Response:
        """The answer without its body; what is said before it does not count."""
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                return event

    async def body(self) -> bytes:
        """The body, or its beginning."""
        body = bytearray()
        while len(body) < _MAX_BODY_BYTES:
            event = await self._next()
            if not isinstance(event, h11.Data):
                break
            body += event.data
        return bytes(body[:_MAX_BODY_BYTES])

    async def _next(self) -> object:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            received = await self._reader.read(_READ_BYTES)
            self.is_silent = self.is_silent and not received
            self._http.receive_data(received)


def _redirected(request: GetRequest, head: h11.Response, *, first_host: str) -> GetRequest | None:
    """The request that ``head`` asks for instead; None if it is to be taken as it is."""
    location = next((value.decode("latin-1") for name, value in head.headers if name == b"location"), "")
    if head.status_code not in _REDIRECTS or not location:
        return None
    try:
        parts = urlsplit(urljoin(request.url, location))
        scheme, port = HttpScheme(parts.scheme.upper()), parts.port
    except ValueError as error:
        raise _failed(request, f"failed to parse Location header {quote_go(location)}: {error}") from error
    host = parts.hostname or ""
    if host != first_host:
        return None
    if port is None:
        port = 443 if scheme is HttpScheme.HTTPS else 80
    target = _target(parts.path + (f"?{parts.query}" if parts.query else ""))
    onward = replace(request, scheme=scheme, port=port, target=target)
    # A relative redirect stays with the name that the request was sent to.
    if not urlsplit(location).netloc:
        return onward
    return replace(onward, headers=(("Host", parts.netloc), *request.headers[1:]))


def _failed(request: GetRequest, problem: str, *, is_plain: bool = False) -> HttpGetFailed:
    return HttpGetFailed(f"Get {quote_go(request.url)}: {problem}", is_plain=is_plain)
