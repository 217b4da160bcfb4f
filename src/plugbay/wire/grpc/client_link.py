"""The client's side of one connection."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from plugbay.wire.grpc import texts
from plugbay.wire.grpc.client_call import ClientCall
from plugbay.wire.grpc.framing import frame
from plugbay.wire.grpc.link import Link
from plugbay.wire.http2.events import GoingAway
from plugbay.wire.http2.frames import MAX_STREAM_ID
from plugbay.wire.http2.settings import Http2Limits, Role

_MAX_HEADER_BYTES: Final = 1024 * 1024
"""The most that is taken of headers, and of trailers, which hold error texts: a Go plugin resets the stream instead of
sending a longer text. Go's gRPC takes 16 times as much, which here would keep the event loop for seconds (Huffman's
code)."""
_WINDOW: Final = 1024 * 1024
_LIMITS: Final = Http2Limits(
    max_header_bytes=_MAX_HEADER_BYTES,
    max_frame_bytes=256 * 1024,
    stream_window=_WINDOW,
    connection_window=16 * _WINDOW,
)


class ClientLink(Link):
    """One connection to a server.

    Attributes:
        ready: done when the server has sent its settings.
        leaving: done when the server takes no more calls, or is gone.
        why_lost: in Go's words; None while the connection stands.
    """

    def __init__(self) -> None:
        super().__init__(Role.CLIENT, _LIMITS)
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.leaving: asyncio.Future[None] = loop.create_future()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._goaway: GoingAway | None = None
        self.why_lost: str | None = None

    @property
    def is_usable(self) -> bool:
        return self.ready.done() and not self.leaving.done()

    async def until_open(self) -> None:
        """Wait until the server takes one more call, or takes none any more (`leaving`)."""
        while not self.http2.can_open and not self.leaving.done():
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._next()  # it was our turn
                raise

    def call(self, block: bytes, request: bytes, *, max_message_bytes: int, until: float | None) -> ClientCall:
        """Make a call.

        Args:
            block: the encoded headers.
            until: the time of the loop at which the call fails; None for never.
        """
        stream = self.http2.open(block)
        if stream == MAX_STREAM_ID:
            self._leave()
        call = ClientCall(self, stream, max_message_bytes=max_message_bytes, until=until)
        self.calls[stream] = call
        self.http2.send_data(stream, frame(request), ends=True)
        self.flush()
        return call

    def close(self) -> None:
        """Hang up; calls under way fail."""
        for call in tuple(self.calls.values()):
            assert isinstance(call, ClientCall)
            call.close()
        self.http2.go_away()
        self.end()

    def end(self) -> None:
        self._leave()
        super().end()

    def abort(self) -> None:
        self._leave()
        super().abort()

    def forget(self, stream: int) -> None:
        super().forget(stream)
        self._next()
        if self.leaving.done() and not self.calls:
            self.end()

    def connection_lost(self, error: Exception | None) -> None:
        self._leave()
        super().connection_lost(error)

    def _settings(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)
        self._all()  # the server may take many more now

    def _fail_all(self, why: str) -> None:
        self.why_lost = self.why_lost or why
        super()._fail_all(why)

    def _reason(self, why: str) -> str:
        reason = super()._reason(why)
        if self._goaway is not None:
            return texts.after_goaway(reason, self._goaway.code, self._goaway.debug)
        return reason

    def _going_away(self, event: GoingAway) -> None:
        self._goaway = self._goaway or event
        for stream, call in tuple(self.calls.items()):
            if stream > event.last_stream:
                assert isinstance(call, ClientCall)
                call.unseen()
        self._leave()
        if not self.calls:
            self.end()

    def _leave(self) -> None:
        if not self.leaving.done():
            self.leaving.set_result(None)
        self._all()

    def _all(self) -> None:
        """Let all waiting calls look again; those that have to wait on do so in the same order."""
        while self._waiting:
            self._next()

    def _next(self) -> None:
        """Let the call go on that has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
