"""The receiving half of a connection: what each frame of the peer means.

Source: RFC 9113 sections 5.1, 6 and 8.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from plugbay.wire.http2 import frames
from plugbay.wire.http2.budgets import Budget
from plugbay.wire.http2.codes import ConnectionFault, ErrorCode, StreamFault
from plugbay.wire.http2.events import (
    DataReceived,
    GoingAway,
    HeadersReceived,
    Pong,
    SettingsReceived,
    StreamDrained,
    StreamReset,
)
from plugbay.wire.http2.frames import ACK, END_HEADERS, END_STREAM, MAX_STREAM_ID, PADDED, PRIORITY_FLAG
from plugbay.wire.http2.header_blocks import BlockDecoder, OpenBlock
from plugbay.wire.http2.messages import FieldSection, MessagePart
from plugbay.wire.http2.penalties import Penalties
from plugbay.wire.http2.sending import Sender
from plugbay.wire.http2.settings import Http2Limits, Role, Settings
from plugbay.wire.http2.stream_states import TRANSITIONS, Happening, StreamState
from plugbay.wire.http2.streams import Stream, StreamTable
from plugbay.wire.http2.windows import DEFAULT_WINDOW, MAX_WINDOW

_PRIORITY_BYTES: Final = 5
_MOST_SETTINGS: Final = 100


class Receiver:
    """Reads the frames of one peer.

    Attributes:
        last_accepted: no stream of the peer above it is taken, since we have said so in a GOAWAY.
        peer_last_stream: the last of our streams that the peer looks at, by its last GOAWAY; None without one.

    Args:
        remote: the peer's settings, which its SETTINGS change.
        penalties: what follows when the peer breaks a rule; it holds the events and the connection's window.
        cheap: the peer's budget, to which frames of use give something back.
    """

    def __init__(
        self,
        role: Role,
        limits: Http2Limits,
        remote: Settings,
        streams: StreamTable,
        sender: Sender,
        penalties: Penalties,
        cheap: Budget,
    ) -> None:
        self.last_accepted = MAX_STREAM_ID
        self._role = role
        self._limits = limits
        self._remote = remote
        self._streams = streams
        self._sender = sender
        self._penalties = penalties
        self._cheap = cheap
        self._decoder = BlockDecoder(limits.max_header_bytes)
        self._block: OpenBlock | None = None
        self._grace = max(0, DEFAULT_WINDOW - limits.stream_window)
        """The peer may send so much more on a stream until it knows our settings (section 6.9.3)."""
        self.peer_last_stream: int | None = None
        self._expected: int | None = frames.SETTINGS
        """The only kind of frame that may come next; None is any."""

    def read(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """Take in one frame on stream ``number``.

        Raises:
            ConnectionFault: the peer broke a rule, and the connection ends.
        """
        if self._expected is not None and kind != self._expected:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"a frame of kind {kind} came, not {self._expected}")
        reader = _READERS.get(kind)
        if reader is None:  # section 5.5
            self._penalties.spend("unknown frames")
            return
        try:
            reader(self, flags, number, payload)
        except StreamFault as fault:
            self._penalties.reset(number, fault.code)

    def consumed(self, number: int, count: int) -> None:
        """Let the peer send so many bytes more; the stream may be closed already."""
        if increment := self._penalties.window.consume(count):
            self._sender.write(frames.window_update(0, increment))
        stream = self._streams.open.get(number)
        if stream is not None and stream.state is not StreamState.HALF_CLOSED_REMOTE:
            if increment := stream.window.consume(count):
                self._sender.write(frames.window_update(number, increment))

    # --- messages -----------------------------------------------------------------------------------------------

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        """Section 6.1; flow control counts the whole payload, on streams that are closed as well (section 5.1)."""
        size = len(payload)
        if size > self._penalties.window.left:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, f"{size} bytes do not fit into the connection's window")
        self._penalties.window.left -= size
        stream = self._streams.open.get(number)
        if stream is None:
            self._penalties.credit(size)
            self._penalties.judge(self._streams.state_of(number), Happening.DATA_RECEIVED, number)
            return
        content = _unpadded(payload) if flags & PADDED else payload
        ends = flags & END_STREAM != 0
        if code := self._breach_of_data(stream, size, len(content), ends):
            self._penalties.credit(size)
            raise StreamFault(code)
        stream.window.left -= size
        if size > len(content):
            self.consumed(number, size - len(content))
        if content or ends:
            self._penalties.events.append(DataReceived(number, content, ends))
            self._cheap.earn()
        else:
            self._penalties.spend("empty DATA")
        if ends:
            self._streams.change(stream, Happening.END_RECEIVED)

    def _breach_of_data(self, stream: Stream, size: int, content: int, ends: bool) -> ErrorCode | None:
        """The error that DATA on an open stream is, if it is one; ``size - content`` of its bytes are padding."""
        if TRANSITIONS[stream.state][Happening.DATA_RECEIVED] is not stream.state:
            return ErrorCode.STREAM_CLOSED
        if stream.awaits is not MessagePart.TRAILERS:
            return ErrorCode.PROTOCOL_ERROR
        if size > stream.window.left + self._grace:
            return ErrorCode.FLOW_CONTROL_ERROR
        if stream.content_left is not None:  # section 8.1.1
            stream.content_left -= content
            if stream.content_left < 0 or (ends and stream.content_left):
                return ErrorCode.PROTOCOL_ERROR
        return None

    def _headers(self, flags: int, number: int, payload: bytes) -> None:
        """Section 6.2."""
        if flags & PADDED:
            payload = _unpadded(payload)
        if flags & PRIORITY_FLAG:
            if len(payload) < _PRIORITY_BYTES:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "HEADERS end within their priority")
            if _depends_on(payload) == number:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"stream {number} depends on itself")
            payload = payload[_PRIORITY_BYTES:]
        ends = flags & END_STREAM != 0
        if flags & END_HEADERS and len(payload) <= self._limits.max_header_bytes:
            self._fields(number, payload, ends)
        else:
            self._block = OpenBlock(number, payload, ends=ends, most=self._limits.max_header_bytes)
            self._expected = frames.CONTINUATION

    def _continuation(self, flags: int, number: int, payload: bytes) -> None:
        """Section 6.10."""
        block = self._block
        if block is None or block.stream != number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"CONTINUATION on stream {number} continues nothing")
        if not payload:
            self._penalties.spend("empty CONTINUATION")
        block.add(payload)
        if flags & END_HEADERS:
            self._block = self._expected = None
            self._fields(number, block.whole(), block.ends)

    def _fields(self, number: int, block: bytes, ends: bool) -> None:
        """Sections 8.1 and 8.2; a block is decoded whatever its stream is, as the next one builds on it."""
        section = self._decoder.decode(block)
        stream = self._streams.open.get(number)
        if stream is None:
            stream = self._opened(number, section, ends)
            if stream is None:
                return
        elif TRANSITIONS[stream.state][Happening.HEADERS_RECEIVED] is not stream.state:
            raise StreamFault(ErrorCode.STREAM_CLOSED)
        part = section.part
        if part is not stream.awaits:
            if part is MessagePart.INTERIM_RESPONSE and stream.awaits is MessagePart.RESPONSE and not ends:
                self._penalties.spend("interim responses")
                return
            raise StreamFault(ErrorCode.PROTOCOL_ERROR)
        if part is not MessagePart.TRAILERS:
            stream.awaits = MessagePart.TRAILERS
            stream.content_left = section.content_length
        elif not ends:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR)
        if ends and stream.content_left:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR)
        self._penalties.events.append(HeadersReceived(number, section.fields, ends))
        self._cheap.earn()
        if ends:
            self._streams.change(stream, Happening.END_RECEIVED)

    def _opened(self, number: int, section: FieldSection, ends: bool) -> Stream | None:
        """The stream that HEADERS have opened; None if there is none, as it was refused or is closed already."""
        streams = self._streams
        if not streams.is_idle(number):
            if self._role is Role.SERVER and not streams.was_open(number):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"stream {number} comes after {streams.last_of_peer}")
            self._penalties.judge(streams.state_of(number), Happening.HEADERS_RECEIVED, number)
            return None
        if self._role is Role.CLIENT or not number & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"stream {number} is not for the peer to open")
        streams.last_of_peer = number
        if number > self.last_accepted or len(streams.open) >= self._limits.max_streams:
            raise StreamFault(ErrorCode.REFUSED_STREAM)
        if section.part is not MessagePart.REQUEST or (ends and section.content_length):
            raise StreamFault(ErrorCode.PROTOCOL_ERROR)
        return streams.add(number, self._remote.initial_window)

    # --- streams ------------------------------------------------------------------------------------------------

    def _rst_stream(self, flags: int, number: int, payload: bytes) -> None:
        """Section 6.4."""
        if len(payload) != 4:
            raise _wrong_size("RST_STREAM", payload)
        stream = self._streams.open.get(number)
        if stream is None:
            self._penalties.judge(self._streams.state_of(number), Happening.RESET_RECEIVED, number)
            return
        self._penalties.spend_reset()
        self._sender.drop(stream)
        self._streams.change(stream, Happening.RESET_RECEIVED)
        self._penalties.events.append(StreamReset(number, int.from_bytes(payload), by_peer=True))

    def _priority(self, flags: int, number: int, payload: bytes) -> None:
        """Section 6.3; a stream that depends on itself is an error of RFC 7540 section 5.3.1."""
        if number == 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0")
        self._penalties.spend("PRIORITY")
        is_open = number in self._streams.open
        if len(payload) != _PRIORITY_BYTES:
            if is_open:
                raise StreamFault(ErrorCode.FRAME_SIZE_ERROR)
            raise _wrong_size("PRIORITY", payload)
        if is_open and _depends_on(payload) == number:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR)

    def _window_update(self, flags: int, number: int, payload: bytes) -> None:
        """Sections 6.9 and 6.9.1."""
        if len(payload) != 4:
            raise _wrong_size("WINDOW_UPDATE", payload)
        increment = int.from_bytes(payload) & MAX_WINDOW
        stream = self._streams.open.get(number)
        if stream is None and number:
            self._penalties.judge(self._streams.state_of(number), Happening.WINDOW_UPDATE_RECEIVED, number)
            return
        self._penalties.spend("WINDOW_UPDATE")
        if stream is None:
            self._widen_connection(increment)
            return
        if not increment:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR)
        if stream.send_window + increment > MAX_WINDOW:
            raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR)
        stream.send_window += increment
        if stream.queue and self._sender.advance(stream):
            self._penalties.events.append(StreamDrained(number))

    def _widen_connection(self, increment: int) -> None:
        if not increment:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of the connection by 0")
        if self._sender.window + increment > MAX_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, f"the connection's window is over {MAX_WINDOW}")
        self._sender.window += increment
        self._advance_all()

    def _advance_all(self) -> None:
        self._penalties.events += map(StreamDrained, self._sender.advance_all())

    # --- the connection -----------------------------------------------------------------------------------------

    def _settings(self, flags: int, number: int, payload: bytes) -> None:
        """Sections 6.5 and 6.9.2; CVE-2020-11080."""
        if number != 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"SETTINGS on stream {number}")
        self._penalties.spend("SETTINGS")
        if flags & ACK:
            self._acknowledged(payload)
            return
        self._expected = None
        if len(payload) % 6:
            raise _wrong_size("SETTINGS", payload)
        if len(payload) > 6 * _MOST_SETTINGS:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, f"SETTINGS have more than {_MOST_SETTINGS} entries")
        before = self._remote.initial_window
        self._remote.apply(payload, self._role)
        change = self._remote.initial_window - before
        if change:
            for stream in self._streams.open.values():
                stream.send_window += change
                if stream.send_window > MAX_WINDOW:
                    reason = f"SETTINGS widen the window of stream {stream.id} over {MAX_WINDOW}"
                    raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, reason)
        self._sender.answer(frames.SETTINGS_ACK)
        self._penalties.events.append(SettingsReceived())
        if change > 0:
            for stream in self._streams.open.values():
                if stream.queue:  # each may send a frame, however little the window has grown (CVE-2019-9511)
                    self._penalties.spend("SETTINGS")
            self._advance_all()

    def _acknowledged(self, payload: bytes) -> None:
        if payload:
            raise _wrong_size("SETTINGS with ACK", payload)
        if self._expected is not None:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the peer acknowledges SETTINGS before it sends its own")
        self._grace = 0

    def _push_promise(self, flags: int, number: int, payload: bytes) -> NoReturn:
        """Section 8.4: clients never push, and as a client we say that nothing may be pushed."""
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE is not allowed")

    def _ping(self, flags: int, number: int, payload: bytes) -> None:
        """Section 6.7."""
        if number != 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"PING on stream {number}")
        if len(payload) != 8:
            raise _wrong_size("PING", payload)
        self._penalties.spend("PING")
        if flags & ACK:
            self._penalties.events.append(Pong(payload))
        else:
            self._sender.answer(frames.frame(frames.PING, ACK, 0, payload))

    def _goaway(self, flags: int, number: int, payload: bytes) -> None:
        """Section 6.8."""
        if number != 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"GOAWAY on stream {number}")
        if len(payload) < 8:
            raise _wrong_size("GOAWAY", payload)
        self._penalties.spend("GOAWAY")
        last_stream, code = frames.TWO_WORDS.unpack_from(payload)
        last_stream &= MAX_STREAM_ID
        if self.peer_last_stream is not None and last_stream > self.peer_last_stream:
            reason = f"GOAWAY names stream {last_stream} after {self.peer_last_stream}"
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, reason)
        self.peer_last_stream = last_stream
        self._penalties.events.append(GoingAway(last_stream, code, payload[8:]))


_READERS: Final[Mapping[int, Callable[[Receiver, int, int, bytes], None]]] = {
    frames.DATA: Receiver._data,
    frames.HEADERS: Receiver._headers,
    frames.PRIORITY: Receiver._priority,
    frames.RST_STREAM: Receiver._rst_stream,
    frames.SETTINGS: Receiver._settings,
    frames.PUSH_PROMISE: Receiver._push_promise,
    frames.PING: Receiver._ping,
    frames.GOAWAY: Receiver._goaway,
    frames.WINDOW_UPDATE: Receiver._window_update,
    frames.CONTINUATION: Receiver._continuation,
}


def _unpadded(payload: bytes) -> bytes:
    """``payload`` of a frame with the flag PADDED, without its padding."""
    if not payload:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a padded frame is empty")
    end = len(payload) - payload[0]
    if end < 1:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame has more padding than content")
    return payload[1:end]


def _depends_on(payload: bytes) -> int:
    return int.from_bytes(payload[:4]) & MAX_STREAM_ID


def _wrong_size(what: str, payload: bytes) -> ConnectionFault:
    return ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"{what} of {len(payload)} bytes")
