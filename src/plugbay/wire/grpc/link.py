"""One HTTP/2 connection on one socket: bytes of the transport in, events to the calls, and back."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final, Protocol

from plugbay.wire.grpc.texts import how_lost, reading_failed, rules_broken
from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.http2.connection import Http2Connection
from plugbay.wire.http2.events import (
    ConnectionFailed,
    DataReceived,
    Event,
    Fields,
    GoingAway,
    HeadersReceived,
    Pong,
    SettingsReceived,
    StreamDrained,
    StreamReset,
)
from plugbay.wire.http2.settings import Http2Limits, Role

FLUSH_S: Final = 1.0
"""The time that a connection may take to send what is left, once it is to end."""
_PIECE: Final = 65_536
_MOST_PIECES: Final = 64
"""More than a socket's buffer holds."""


class Call(Protocol):
    """One stream's side of a link."""

    def headers(self, fields: Fields, *, ends: bool) -> None: ...

    def data(self, data: bytes, *, ends: bool) -> None: ...

    def reset(self, code: int) -> None:
        """The peer has broken the stream off; nothing can be sent any more."""
        ...

    def malformed(self) -> None:
        """The peer has broken the rules on the stream, which was reset from here."""
        ...

    def drained(self) -> None:
        """The peer's windows have let through all that was queued on the stream."""
        ...

    def lost(self, reason: str) -> None:
        """The connection is lost; ``reason`` is in Go's words."""
        ...


class Link(asyncio.Protocol):
    """The connection itself, the same for both sides. A subclass makes the calls.

    Attributes:
        lost: done when the connection is lost.
        may_write: set unless the peer leaves unread what was sent.
    """

    def __init__(self, role: Role, limits: Http2Limits) -> None:
        self.http2 = Http2Connection(role, limits, time.monotonic)
        self.calls: dict[int, Call] = {}
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.may_write = asyncio.Event()
        self.may_write.set()
        self._transport: asyncio.Transport | None = None
        self._ending: asyncio.TimerHandle | None = None

    # --- what asyncio calls -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.flush()

    def data_received(self, data: bytes) -> None:
        for event in self.http2.receive(data):
            self._take(event)
        self.flush()

    def eof_received(self) -> bool:
        """The peer sends nothing more, and so the connection ends, as with Go's gRPC: also what it has not read."""
        self.abort()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        transport, self._transport = self._transport, None
        if transport is not None and isinstance(error, BrokenPipeError | ConnectionResetError):
            error = self._read_rest(transport.get_extra_info("socket").fileno())
        if self._ending is not None:
            self._ending.cancel()
        self.may_write.set()
        self._fail_all(how_lost(error, is_within_frame=self.http2.is_within_frame))
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        self.may_write.clear()

    def resume_writing(self) -> None:
        self.may_write.set()
        self.flush()

    # --- what calls and ends need -----------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what the connection has to send, unless the peer leaves unread what was written before.

        The core counts the answers that wait then, and ends the connection of a peer that has more and more made.
        """
        if self._transport is not None and self.may_write.is_set() and (waiting := self.http2.take()):
            self._transport.write(waiting)

    def end(self) -> None:
        """Close the socket when all is sent, or else after `FLUSH_S`: a peer that is frozen does not hold it open."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.write(self.http2.take())
            transport.close()
            if transport.get_write_buffer_size():
                self._ending = asyncio.get_running_loop().call_later(FLUSH_S, transport.abort)

    def hang_up(self, code: ErrorCode, reason: str) -> None:
        """End the connection, and tell the peer why; calls under way fail."""
        self.http2.go_away(code, reason.encode())
        self._fail_all(rules_broken(code, reason))
        self.end()

    def abort(self) -> None:
        """Close the socket; what is not sent yet is lost."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def forget(self, stream: int) -> None:
        """The call on ``stream`` has ended."""
        self.calls.pop(stream, None)

    # --- for subclasses ---------------------------------------------------------------------------------------------

    def _unknown(self, event: HeadersReceived) -> None:
        """The headers of a stream without a call."""

    def _going_away(self, event: GoingAway) -> None:
        """The peer takes no new streams."""

    def _settings(self) -> None:
        """The peer's settings have come or changed."""

    def _reason(self, why: str) -> str:
        """The text for calls on a connection that was lost because of ``why``."""
        return reading_failed(why)

    def _take(self, event: Event) -> None:
        match event:
            case HeadersReceived(stream, fields, ends):
                if (call := self.calls.get(stream)) is not None:
                    call.headers(fields, ends=ends)
                else:
                    self._unknown(event)
            case DataReceived(stream, data, ends):
                if (call := self.calls.get(stream)) is not None:
                    call.data(data, ends=ends)
                else:
                    self.http2.consumed(stream, len(data))
            case StreamReset(stream, code, by_peer):
                if (call := self.calls.get(stream)) is not None:
                    if by_peer:
                        call.reset(code)
                    else:
                        call.malformed()
            case StreamDrained(stream):
                if (call := self.calls.get(stream)) is not None:
                    call.drained()
            case SettingsReceived():
                self._settings()
            case GoingAway():
                self._going_away(event)
            case ConnectionFailed(code, reason):
                self._fail_all(rules_broken(code, reason))
                self.end()
            case Pong():
                pass

    def _read_rest(self, descriptor: int) -> OSError | None:
        """Take in what the peer has sent before it hung up on what we were writing: asyncio reads no more then.

        Returns:
            How reading failed; None at the end of what was sent.
        """
        try:
            for _ in range(_MOST_PIECES):
                if not (data := os.read(descriptor, _PIECE)):
                    break
                self.data_received(data)
        except OSError as error:
            return error.with_traceback(None)  # which would keep the frame that keeps the error
        return None

    def _fail_all(self, why: str) -> None:
        """The connection is lost; ``why`` is in Go's words."""
        reason = self._reason(why)
        for call in tuple(self.calls.values()):
            call.lost(reason)
        self.calls.clear()
