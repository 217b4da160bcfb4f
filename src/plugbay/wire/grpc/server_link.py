"""The server's side of one connection: finds the method that a call asks for, and keeps a peer within its bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.grpc.kept import KeptOfAll, KeptOfPeer
from plugbay.wire.grpc.link import Link
from plugbay.wire.grpc.quoting import quoted
from plugbay.wire.grpc.server_call import ServerCall
from plugbay.wire.grpc.services import AnyMethod, Otherwise, Service
from plugbay.wire.grpc.statuses import trailers
from plugbay.wire.grpc.texts import deadline_passed, is_grpc
from plugbay.wire.grpc.timeouts import decode_timeout
from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.http2.events import HeadersReceived
from plugbay.wire.http2.header_blocks import encode
from plugbay.wire.http2.settings import Http2Limits, Role

PREFACE_S: Final = 10.0
"""The time that a peer has for its first settings."""
_MAX_HEADER_BYTES: Final = 64 * 1024
"""Several times what C-core takes. Each block is decoded in one go, a megabyte in Huffman's code in 0.25 s."""
_WINDOW: Final = 1024 * 1024
_FRAME_BYTES: Final = 256 * 1024


def _limits(max_calls: int) -> Http2Limits:
    return Http2Limits(
        max_streams=max_calls,
        max_header_bytes=_MAX_HEADER_BYTES,
        max_frame_bytes=_FRAME_BYTES,
        stream_window=_WINDOW,
        connection_window=4 * _WINDOW,
    )


@dataclass(eq=False)
class Offer:
    """The offer of a server to every peer.

    Attributes:
        max_calls: so many calls of one connection run at a time.
        otherwise: answers calls of methods that no service has.
        links: the connections.
        running: the methods that answer calls, until they have ended.
        kept: what the calls of all peers take.
    """

    services: Mapping[str, Service]
    max_calls: int
    otherwise: Otherwise | None = None
    links: set[ServerLink] = field(default_factory=set)
    running: set[asyncio.Task[None]] = field(default_factory=set)
    kept: KeptOfAll = field(default_factory=KeptOfAll)

    def find(self, path: bytes) -> AnyMethod:
        """The method at ``path``, such as ``/v1beta1.DevicePlugin/Allocate``.

        Raises:
            RpcFailed: there is none.
        """
        name, slash, method = path.decode("utf-8", "replace").removeprefix("/").rpartition("/")
        if not (slash and path.startswith(b"/")):
            raise RpcFailed(RpcCode.UNIMPLEMENTED, f"malformed method name: {quoted(path)}")
        service = self.services.get(name)
        if self.otherwise is not None and (service is None or method not in service.methods):
            return self.otherwise(f"/{name}/{method}")
        if service is None:
            raise RpcFailed(RpcCode.UNIMPLEMENTED, f"unknown service {name}")
        if method not in service.methods:
            raise RpcFailed(RpcCode.UNIMPLEMENTED, f"unknown method {method} for service {name}")
        return service.methods[method]

    def relieve(self) -> None:
        """Hang up on the peer whose calls take most."""
        if self.links:
            greediest = max(self.links, key=lambda link: link.kept.count)
            greediest.hang_up(ErrorCode.ENHANCE_YOUR_CALM, "the calls of all clients together are too large")
            greediest.kept.disown()


class ServerLink(Link):
    """One peer's connection.

    Attributes:
        kept: what its calls take.
        idle_since: the time of the loop at which its last call ended, or it connected.
    """

    def __init__(self, offer: Offer) -> None:
        super().__init__(Role.SERVER, _limits(offer.max_calls))
        self.kept = KeptOfPeer(offer.kept, offer.relieve)
        self.idle_since = asyncio.get_running_loop().time()
        self._offer = offer
        self._running: set[asyncio.Task[None]] = set()
        self._greeting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._offer.links.add(self)
        self._greeting = asyncio.get_running_loop().call_later(PREFACE_S, self._not_greeted)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._offer.links.discard(self)
        self._greeted()
        super().connection_lost(error)
        self.kept.disown()

    def pause_writing(self) -> None:
        """Read no more from a peer that does not read. Clients of ours always read, so that never both wait."""
        super().pause_writing()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._transport is not None:
            self._transport.resume_reading()

    def stop(self) -> None:
        """Take no more calls."""
        self.http2.go_away()
        self.flush()

    def cancel_calls(self) -> None:
        """Cancel the methods that run for the peer; those whose calls have ended have been cancelled already."""
        for call in tuple(self.calls.values()):
            assert isinstance(call, ServerCall)
            call.cancel()

    @property
    def is_idle(self) -> bool:
        """Whether no method runs for the peer."""
        return not self._running and self._transport is not None

    def importance(self) -> tuple[bool, bool, float]:
        """The greater, the more is lost with an idle connection: first with its peer's settings, then with requests
        that are on their way, then with one that was of use lately."""
        return self._greeting is None, bool(self.calls), self.idle_since

    def _not_greeted(self) -> None:
        self._greeting = None
        self.hang_up(ErrorCode.SETTINGS_TIMEOUT, f"no SETTINGS came within {PREFACE_S:g} s")

    def _settings(self) -> None:
        self._greeted()

    def _greeted(self) -> None:
        if self._greeting is not None:
            self._greeting.cancel()
            self._greeting = None

    def _unknown(self, event: HeadersReceived) -> None:
        stream, fields = event.stream, event.fields
        headers = dict(fields)
        if b":method" not in headers:  # the trailers of a call that has been answered already
            return
        if self._transport is None:  # it has just been hung up on
            return
        if len(self._running) >= self._offer.max_calls:
            # A peer may have reset calls whose methods have not ended yet (CVE-2023-44487).
            self.http2.reset(stream, ErrorCode.REFUSED_STREAM)
            return
        if (status := _not_grpc(headers)) is not None:
            self._refuse(event, *status)
            return
        try:
            timeout_s = _timeout(headers)
        except RpcFailed as failure:
            self._refuse(event, b"400", failure)
            return
        try:
            if timeout_s == 0:
                raise deadline_passed()
            method = self._offer.find(headers[b":path"])
            _check_encoding(headers)
        except RpcFailed as failure:
            self._refuse(event, b"200", failure)
            return
        call = self.calls[stream] = ServerCall(
            self, stream, method, fields, timeout_s=timeout_s, start=self._start, kept=self.kept
        )
        if event.ends:
            call.data(b"", ends=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        for running in (self._running, self._offer.running):
            running.add(task)
            task.add_done_callback(running.discard)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, _: object) -> None:
        if not self._running:
            self.idle_since = asyncio.get_running_loop().time()

    def _refuse(self, event: HeadersReceived, http_status: bytes, failure: RpcFailed) -> None:
        fields: Iterable[tuple[bytes, bytes]] = trailers(failure, max_bytes=self.http2.remote.max_header_bytes)
        block = encode([(b":status", http_status), (b"content-type", b"application/grpc"), *fields])
        self.http2.send_headers(event.stream, block, ends=True)
        if not event.ends:
            self.http2.reset(event.stream, ErrorCode.NO_ERROR)


def _not_grpc(headers: Mapping[bytes, bytes]) -> tuple[bytes, RpcFailed] | None:
    """The answer to a request of HTTP that is not one of gRPC."""
    if (method := headers[b":method"]) != b"POST":
        text = f"Received a HEADERS frame with :method {quoted(method)} which should be POST"
        return b"405", RpcFailed(RpcCode.INTERNAL, text)
    kind = headers.get(b"content-type", b"")
    if not is_grpc(kind):
        return b"415", RpcFailed(RpcCode.INVALID_ARGUMENT, f"invalid gRPC request content-type {quoted(kind)}")
    return None


def _timeout(headers: Mapping[bytes, bytes]) -> float | None:
    value = headers.get(b"grpc-timeout")
    if value is None:
        return None
    try:
        return decode_timeout(value)
    except ValueError as error:
        raise RpcFailed(RpcCode.INTERNAL, f"malformed grpc-timeout: {error}") from error


def _check_encoding(headers: Mapping[bytes, bytes]) -> None:
    encoding = headers.get(b"grpc-encoding", b"identity")
    if encoding not in {b"", b"identity"}:
        text = f"grpc: Decompressor is not installed for grpc-encoding {quoted(encoding)}"
        raise RpcFailed(RpcCode.UNIMPLEMENTED, text)
