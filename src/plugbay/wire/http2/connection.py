"""One side of an HTTP/2 connection: the peer's bytes in, events out; calls in, bytes for the peer out.

Source: RFC 9113.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from plugbay.wire.http2 import frames
from plugbay.wire.http2.budgets import CHEAP_BURST, CHEAP_PER_S, RESET_BURST, RESETS_PER_S, Budget
from plugbay.wire.http2.codes import ConnectionFault, ErrorCode
from plugbay.wire.http2.events import ConnectionFailed, Event
from plugbay.wire.http2.frame_splitter import FrameSplitter
from plugbay.wire.http2.frames import MAX_STREAM_ID
from plugbay.wire.http2.penalties import Penalties
from plugbay.wire.http2.receiving import Receiver
from plugbay.wire.http2.sending import Sender
from plugbay.wire.http2.settings import Http2Limits, Role, Settings, announced, encode
from plugbay.wire.http2.stream_states import Happening
from plugbay.wire.http2.streams import Stream, StreamTable
from plugbay.wire.http2.windows import DEFAULT_WINDOW

__all__ = ["Http2Connection", "Http2Limits", "Role"]


class _Phase(Enum):
    ONGOING = "ongoing"
    GOING_AWAY = "going away"
    """We have sent GOAWAY; the streams under way go on."""
    FAILED = "failed"


class Http2Connection:
    """A connection in one of the two roles; its preface is in the bytes to send from the beginning.

    What a peer does never raises. What we do raises RuntimeError if it can never be right, as DATA on a stream that was
    never opened; on a stream that has ended meanwhile it does nothing, as the peer may end streams at any time.

    Attributes:
        remote: the peer's settings.

    Args:
        clock: gives seconds that never go back; it tells how often a peer does what is of no use.
    """

    def __init__(self, role: Role, limits: Http2Limits, clock: Callable[[], float]) -> None:
        self.remote = Settings()
        cheap = Budget(CHEAP_BURST, CHEAP_PER_S, clock)
        resets = Budget(RESET_BURST, RESETS_PER_S, clock)
        self._role = role
        self._streams = StreamTable(role, limits.stream_window)
        self._sender = Sender(self._streams, self.remote, cheap)
        self._penalties = Penalties(
            role, self._streams, self._sender, limits.connection_window, cheap=cheap, resets=resets
        )
        self._receiver = Receiver(role, limits, self.remote, self._streams, self._sender, self._penalties, cheap)
        self._splitter = FrameSplitter(frames.PREFACE if role is Role.SERVER else b"", limits.max_frame_bytes)
        self._phase = _Phase.ONGOING
        if role is Role.CLIENT:
            self._sender.write(frames.PREFACE)
        self._sender.write(frames.frame(frames.SETTINGS, 0, 0, encode(announced(limits, role))))
        if limits.connection_window > DEFAULT_WINDOW:
            self._sender.write(frames.window_update(0, limits.connection_window - DEFAULT_WINDOW))

    # --- from the peer ------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Event]:
        """The events that ``data``, the next bytes of the peer, bring about; then `take` may have something to send."""
        if self._phase is _Phase.FAILED:
            return []
        receiver = self._receiver
        try:
            for kind, flags, stream, payload in self._splitter.split(data):
                receiver.read(kind, flags, stream, payload)
        except ConnectionFault as fault:
            self._fail(fault)
        events, self._penalties.events = self._penalties.events, []
        return events

    def consumed(self, stream: int, count: int) -> None:
        """Take note that the reader has taken ``count`` bytes of `DataReceived`, on a stream that may be closed.

        The peer is told in large pieces only.
        """
        if self._phase is not _Phase.FAILED:
            self._receiver.consumed(stream, count)

    # --- to the peer --------------------------------------------------------------------------------------------

    def open(self, block: bytes, *, ends: bool = False) -> int:
        """Open a stream, as a client, by a request; return its number.

        Args:
            block: of `header_blocks.encode`.
            ends: whether nothing more is sent on the stream.

        Raises:
            RuntimeError: `can_open` is False.
        """
        if not self.can_open:
            raise RuntimeError("no stream can be opened")
        number = self._streams.next_own
        self._streams.next_own += 2
        self._sender.headers(self._streams.add(number, self.remote.initial_window), block, ends=ends)
        return number

    def send_headers(self, stream: int, block: bytes, *, ends: bool = False) -> None:
        """Send the headers of a response, or trailers; those are queued behind data that windows hold back."""
        if found := self._find(stream):
            self._sender.headers(found, block, ends=ends)

    def send_data(self, stream: int, data: bytes, *, ends: bool = False) -> None:
        """Send content; what the peer's windows do not let through is queued until `StreamDrained`."""
        if found := self._find(stream):
            self._sender.data(found, data, ends=ends)

    def unsent(self, stream: int) -> int:
        """The number of bytes of content that are queued on the stream."""
        found = self._streams.open.get(stream)
        return found.unsent if found else 0

    def reset(self, stream: int, code: ErrorCode) -> None:
        """End a stream at once, with what is queued on it; no event follows, and nothing if it is closed."""
        if found := self._find(stream):
            self._sender.drop(found)
            self._streams.change(found, Happening.RESET_SENT)
            self._sender.write(frames.rst_stream(stream, code))

    def ping(self, payload: bytes) -> None:
        """Ask for a `Pong` with the same ``payload``, of 8 bytes."""
        if len(payload) != 8:
            raise RuntimeError(f"a PING has 8 bytes, not {len(payload)}")
        if self._phase is not _Phase.FAILED:
            self._sender.write(frames.frame(frames.PING, 0, 0, payload))

    def go_away(self, code: ErrorCode = ErrorCode.NO_ERROR, debug: bytes = b"", last_stream: int | None = None) -> None:
        """Take no stream of the peer above ``last_stream`` any more; those under way go on.

        Args:
            last_stream: by default the last one that the peer has opened; 2**31-1 only warns that more is to come.
        """
        if self._phase is _Phase.FAILED:
            return
        last = self._streams.last_of_peer if last_stream is None else last_stream
        self._receiver.last_accepted = min(last, self._receiver.last_accepted)
        self._sender.write(frames.goaway(self._receiver.last_accepted, code, debug))
        self._phase = _Phase.GOING_AWAY

    def take(self) -> bytes:
        """The bytes that are to be sent now; empty if there are none."""
        return self._sender.take()

    # --- how it stands ------------------------------------------------------------------------------------------

    @property
    def can_open(self) -> bool:
        """Whether a stream can be opened now: by a client, on a connection that goes on, below the peer's limit."""
        return (
            self._role is Role.CLIENT
            and self._phase is _Phase.ONGOING
            and self._receiver.peer_last_stream is None
            and len(self._streams.open) < self.remote.max_streams
            and self._streams.next_own <= MAX_STREAM_ID
        )

    @property
    def is_within_frame(self) -> bool:
        """Whether the peer has begun a frame, or its preface, and not ended it."""
        return self._splitter.is_within_frame

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return len(self._streams.open)

    def _find(self, number: int) -> Stream | None:
        found = self._streams.open.get(number)
        if found is None and self._streams.is_idle(number):
            raise RuntimeError(f"stream {number} was never opened")
        return found

    def _fail(self, fault: ConnectionFault) -> None:
        self._phase = _Phase.FAILED
        self._streams.open.clear()
        self._sender.write(frames.goaway(self._streams.last_of_peer, fault.code, fault.reason.encode()))
        self._penalties.events.append(ConnectionFailed(fault.code, fault.reason))
