"""One HTTP/1.1 connection: h11 keeps the protocol, this module the socket, the deadlines and the handlers.

h11 is an extra; besides this module only the probes of the node import it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator
from enum import Enum
from typing import Final
from urllib.parse import unquote

import h11

from plugbay.ops.http_access import Access, RequestHead
from plugbay.ops.http_limits import Limits, Pace
from plugbay.ops.http_switched import SwitchedConnection
from plugbay.ops.routing import (
    Answer,
    Handler,
    HttpError,
    Request,
    Response,
    Router,
    StreamResponse,
    UpgradeResponse,
    error_response,
    parse_target,
    phrase,
)
from plugbay.ops.tasks import first

READ_BYTES: Final = 64 * 1024
_WRITE_BYTES: Final = 64 * 1024
"""The most bytes of a response that are copied for a client that does not read."""
_LINGER_S: Final = 1.0
_STILL_SENDING: Final = (h11.SEND_BODY, h11.ERROR)
_WITHOUT_BODY: Final = frozenset({204, 304})

_log = logging.getLogger(__name__)


class ConnectionPhase(Enum):
    """The step of an exchange that a connection is at."""

    IDLE = "idle"
    RECEIVING = "receiving"
    ANSWERING = "answering"
    """A handler is at work."""
    STREAMING = "streaming"
    """A response without an end in sight is sent as it is made."""
    SENDING = "sending"
    """The client takes a response that is complete."""


class HttpConnection:
    """Serves the requests of one client, one after the other.

    Args:
        pace: limits the steps of all clients together.
        client: the socket of the client, which is closed at the end.
    """

    def __init__(self, router: Router, limits: Limits, pace: Pace, access: Access, client: socket.socket) -> None:
        self._router = router
        self._limits = limits
        self._pace = pace
        self._access = access
        self._client = client
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes)
        self._method = b""
        self._closing = False
        self._left = limits.requests
        self.phase = ConnectionPhase.IDLE

    def close_after_response(self) -> None:
        """Answer what is being asked, then serve no further request."""
        self._closing = True

    def abort(self) -> None:
        """Close the connection now. Harmless twice."""
        if self._streams is not None:
            self._writer.transport.abort()
        else:
            self._client.close()

    async def serve(self) -> None:
        """Serve until the client goes, breaks the protocol or a limit, or is told to close."""
        try:
            self._streams = await self._open()
            # With no write buffer, `drain` waits until the kernel has taken everything. TLS keeps a buffer below this
            # one, and its transport would be full when it is empty, if it had 0.
            self._writer.transport.set_write_buffer_limits(high=0 if self._access.tls is None else 1, low=0)
            while await self._serve_one():
                self._protocol.start_next_cycle()
                self.phase = ConnectionPhase.IDLE
            if self._access.tls is not None:
                await self._end_tls()
        except _ClientGone as gone:
            _log.debug("a client went away: %s", gone.__cause__)
        except Exception:  # supervising: one connection fails, not the server
            _log.exception("a connection broke off")
        finally:
            self.abort()

    async def _end_tls(self) -> None:
        """Let the rest of what was sent leave, and tell the client that nothing was cut off."""
        self.phase = ConnectionPhase.SENDING
        self._writer.close()
        with contextlib.suppress(OSError):  # of a client that has gone first, or that never reads
            await self._writer.wait_closed()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Make streams of the client's socket, after its TLS handshake if there has to be one."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=min(READ_BYTES, self._limits.head_bytes), loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        self._client.setblocking(False)
        transport: asyncio.Transport
        try:
            if self._access.tls is None:
                self._client = _as_unix(self._client)
                transport, _ = await loop.create_unix_connection(lambda: protocol, sock=self._client)
            else:
                transport, _ = await loop.connect_accepted_socket(
                    lambda: protocol,
                    self._client,
                    ssl=self._access.tls,
                    ssl_handshake_timeout=self._limits.read_s,
                    ssl_shutdown_timeout=self._limits.write_s,
                )
        except OSError as error:  # it speaks no TLS, or does not trust us; or the system lacks something
            raise _ClientGone from error
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    @property
    def _reader(self) -> asyncio.StreamReader:
        assert self._streams is not None
        return self._streams[0]

    @property
    def _writer(self) -> asyncio.StreamWriter:
        assert self._streams is not None
        return self._streams[1]

    async def _serve_one(self) -> bool:
        """One request; returns whether another may follow on this connection."""
        response: Answer
        try:
            received = await self._receive()
            if received is None:
                return False
            self.phase = ConnectionPhase.ANSWERING
            self._left -= 1
            self._closing = self._closing or self._left <= 0
            response = await self._answer(*received)
        except HttpError as error:  # what could not be read as a request cannot be followed by one
            self._closing = True
            response = error_response(error)
        match response:
            case UpgradeResponse():
                await self._switch(response)
                return False
            case StreamResponse():
                await self._send_stream(response)
            case Response():
                await self._send(response)
        if self._closing or not self._protocol.our_state is self._protocol.their_state is h11.DONE:
            if self._protocol.their_state in _STILL_SENDING:
                self.phase = ConnectionPhase.IDLE
                await self._linger()
            return False
        return True

    # --- receiving -------------------------------------------------------------------------------------------------

    async def _receive(self) -> tuple[h11.Request, bytes] | None:
        """The next request; None when the client is done or has been idle for too long.

        Raises:
            HttpError: the request is malformed, too large or too slow.
        """
        self._method = b""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._limits.idle_s) as deadline:
                pipelined, _ = self._protocol.trailing_data
                if pipelined:
                    await self._pace.turn()
                else:
                    await self._read_more()
                self.phase = ConnectionPhase.RECEIVING
                deadline.reschedule(loop.time() + self._limits.read_s)
                head = await self._next_event()
                if not isinstance(head, h11.Request):
                    return None
                self._method = head.method
                self._access.check(_head_of(head))  # before the client is asked for more
                return head, await self._receive_body(head)
        except TimeoutError:
            if self.phase is ConnectionPhase.IDLE:
                return None
            raise HttpError(408, "Timeout", "the request did not arrive in time") from None
        except h11.RemoteProtocolError as error:
            raise HttpError(error.error_status_hint, "BadRequest", f"malformed request: {error}") from None

    async def _receive_body(self, head: h11.Request) -> bytes:
        limit = self._limits.body_bytes
        too_large = HttpError(413, "RequestEntityTooLarge", f"the request body is larger than {limit} bytes")
        if int(dict(head.headers).get(b"content-length", b"0")) > limit:
            raise too_large  # before the client is asked to go on
        body = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            body += event.data
            if len(body) > limit:
                raise too_large
            await self._pace.turn()  # a read may hold ten thousand chunks of a byte
        return bytes(body)

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        while True:
            event = self._protocol.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self._protocol.they_are_waiting_for_100_continue:
                await self._write(self._protocol.send(h11.InformationalResponse(status_code=100, headers=[])))
            await self._read_more()

    async def _read_more(self) -> None:
        try:
            received = await self._reader.read(min(READ_BYTES, self._limits.head_bytes))
        except ConnectionError as error:
            raise _ClientGone from error
        await self._pace.turn()
        self._protocol.receive_data(received)

    # --- answering -------------------------------------------------------------------------------------------------

    async def _answer(self, head: h11.Request, body: bytes) -> Answer:
        try:
            request, handler = _route(self._router, head, body)
            response = await handler(request)
            if isinstance(response, UpgradeResponse):
                _check_upgrade(request, response.protocol)
            return response
        except HttpError as error:
            return error_response(error)
        except Exception:  # the server's edge: one request fails, not the server
            _log.exception("%s %s failed", head.method.decode(), head.target.decode(errors="replace"))
            return error_response(HttpError(500, "InternalError", "internal error; the server's log has the details"))

    async def _send(self, response: Response) -> None:
        headers = list(response.headers)
        if response.status not in _WITHOUT_BODY:
            headers += [("Content-Type", response.content_type), ("Content-Length", str(len(response.body)))]
        has_body = response.status not in _WITHOUT_BODY and self._method != b"HEAD"
        body = response.body if has_body else b""
        self.phase = ConnectionPhase.SENDING
        sent = self._start(response.status, headers)
        try:
            async with asyncio.timeout(self._limits.write_s):
                for start in range(0, len(body), _WRITE_BYTES):
                    piece = self._protocol.send(h11.Data(data=body[start : start + _WRITE_BYTES]))
                    await self._write(sent + (piece or b""))
                    sent = b""
                await self._write(sent + (self._protocol.send(h11.EndOfMessage()) or b""))
        except TimeoutError as error:
            raise _ClientGone from error

    async def _send_stream(self, response: StreamResponse) -> None:
        self._closing = True
        self.phase = ConnectionPhase.STREAMING
        if response.write_s is not None:
            self._give_up_after(response.write_s)
        try:
            await self._write(self._start(200, [*response.headers, ("Content-Type", response.content_type)]))
            if self._method == b"HEAD":
                return
            await first(self._send_chunks(response), self._wait_until_gone())
        finally:
            if isinstance(response.chunks, AsyncGenerator):
                await response.chunks.aclose()

    async def _send_chunks(self, response: StreamResponse) -> None:
        try:
            async for chunk in response.chunks:
                for start in range(0, len(chunk), _WRITE_BYTES):
                    try:
                        async with asyncio.timeout(response.write_s):
                            piece = chunk[start : start + _WRITE_BYTES]
                            await self._write(self._protocol.send(h11.Data(data=piece)))
                    except TimeoutError:
                        return  # it takes nothing any more
            await self._write(self._protocol.send(h11.EndOfMessage()))
        except _ClientGone:
            pass
        except Exception:  # the server's edge; without a last chunk the client sees that something is missing
            _log.exception("a stream broke off")

    def _give_up_after(self, timeout_s: float) -> None:
        """Have the kernel close the connection once what was sent has not been confirmed for so long."""
        client: socket.socket = self._writer.get_extra_info("socket")
        with contextlib.suppress(OSError):  # a unix socket has no such option, and no host that could be gone
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(timeout_s * 1000))

    async def _switch(self, response: UpgradeResponse) -> None:
        headers = [("Connection", "Upgrade"), ("Upgrade", response.protocol), *response.headers]
        head = h11.InformationalResponse(status_code=101, headers=headers, reason=phrase(101))
        await self._write(self._protocol.send(head))
        early, _ = self._protocol.trailing_data
        try:
            await response.serve(SwitchedConnection(early, self._reader, self._writer))
        except ConnectionError as error:
            raise _ClientGone from error

    async def _wait_until_gone(self) -> None:
        with contextlib.suppress(ConnectionError):
            while await self._reader.read(READ_BYTES):
                pass  # a request that cannot be answered any more

    def _start(self, status: int, headers: list[tuple[str, str]]) -> bytes:
        if self._closing:
            headers.append(("Connection", "close"))
        return self._protocol.send(h11.Response(status_code=status, headers=headers, reason=phrase(status))) or b""

    async def _write(self, sent: bytes | None) -> None:
        try:
            self._writer.write(sent or b"")
            await self._writer.drain()
        except ConnectionError as error:
            raise _ClientGone from error

    async def _linger(self) -> None:
        """Let the client read our answer: closing while it still sends could destroy what it has not read."""
        with contextlib.suppress(OSError):
            async with asyncio.timeout(_LINGER_S):
                if self._writer.can_write_eof():  # TLS cannot end one side only
                    self._writer.write_eof()
                await self._wait_until_gone()


def _as_unix(client: socket.socket) -> socket.socket:
    """The same connection as an object for a unix socket: asyncio asks any other one whether it speaks TLS.

    That question loads OpenSSL: 4 MB in each process that a kubelet probes.
    """
    if client.family == socket.AF_UNIX:
        return client
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=client.detach())


class _ClientGone(Exception):
    """The connection broke; the cause says how."""


def _check_upgrade(request: Request, protocol: str) -> None:
    """Refuse a client that does not ask for the protocol that a resource is served in.

    Raises:
        HttpError: 426 Upgrade Required.
    """
    if request.headers.get("upgrade", "").lower() != protocol.lower():
        upgrade = (("Upgrade", protocol), ("Connection", "Upgrade"))
        raise HttpError(426, "BadRequest", f"this needs the protocol {protocol}", headers=upgrade)


def _route(router: Router, head: h11.Request, body: bytes) -> tuple[Request, Handler]:
    method = head.method.decode("ascii")
    path, pairs = parse_target(head.target.decode("latin-1"))
    handler, params = router.find(method, path)
    request = Request(
        method,
        unquote(path),
        query=dict(pairs),
        headers=_headers_of(head),
        body=body,
        params=params,
        pairs=tuple(pairs),
    )
    return request, handler


def _head_of(head: h11.Request) -> RequestHead:
    return RequestHead(head.method.decode("latin-1"), head.target.decode("latin-1"), _headers_of(head))


def _headers_of(head: h11.Request) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in head.headers:
        key, text = name.decode("ascii"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers
