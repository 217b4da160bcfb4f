"""The streams of one SPDY/3.1 connection, without input or output of its own. Pure.

A stream is open on both sides until one ends its own, or one resets it. Frames of streams that are not open are read
over, as those that were under way when a stream was reset.

Source: SPDY Protocol draft 3.1, section 2.3; ``moby/spdystream`` 0.5 ``connection.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, Flag, auto
from typing import Final, TypeAlias

from plugbay.values import dataclass
from plugbay.wire.spdy.frames import (
    FIN,
    MAX_ID,
    UNIDIRECTIONAL,
    WORD,
    ControlFrame,
    DataPiece,
    FrameKind,
    ResetReason,
    SpdyFault,
    SpdySplitter,
    control_frame,
    data_frames,
)
from plugbay.wire.spdy.header_blocks import HeaderPacker, HeaderUnpacker

MAX_STREAMS: Final = 1000
"""Streams that may be open at a time; the peer is refused more."""

_OPENING_BYTES: Final = 10
"""The part of a SYN_STREAM before its headers."""


class SpdyRole(Enum):
    """The side of a connection; the value is the number of the first stream that it opens."""

    CLIENT = 1
    SERVER = 2


@dataclass(frozen=True, slots=True)
class SpdyOpened:
    """The peer has opened a stream, which waits for `SpdyConnection.accept` or `SpdyConnection.reset`."""

    stream: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SpdyData:
    """The peer has sent a chunk, which is not empty."""

    stream: int
    chunk: bytes


@dataclass(frozen=True, slots=True)
class SpdyEnded:
    """The peer sends nothing more on the stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class SpdyReset:
    """The peer has given the stream up, both ways."""

    stream: int


@dataclass(frozen=True, slots=True)
class SpdyAnswer:
    """Bytes that have to be sent to the peer."""

    content: bytes


@dataclass(frozen=True, slots=True)
class SpdyGoAway:
    """The peer takes no further streams, and closes the connection."""


SpdyEvent: TypeAlias = SpdyOpened | SpdyData | SpdyEnded | SpdyReset | SpdyAnswer | SpdyGoAway


class _Sides(Flag):
    """The sides that may still send."""

    NONE = 0
    OURS = auto()
    THEIRS = auto()


_BOTH: Final = _Sides.OURS | _Sides.THEIRS


class SpdyConnection:
    """One side of a connection. What a method returns has to be sent, in the order of the calls."""

    def __init__(self, role: SpdyRole, *, max_streams: int = MAX_STREAMS) -> None:
        self._role = role
        self._max_streams = max_streams
        self._splitter = SpdySplitter()
        self._packer = HeaderPacker()
        self._unpacker = HeaderUnpacker()
        self._next = role.value
        self._last_of_peer = 0
        self._streams: dict[int, _Sides] = {}

    # --- to the peer ------------------------------------------------------------------------------------------------

    def open(self, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """The number of a new stream, and its first frame."""
        stream, self._next = self._next, self._next + 2
        self._streams[stream] = _BOTH
        payload = WORD.pack(stream) + WORD.pack(0) + b"\0\0" + self._packer.pack(headers)
        return stream, control_frame(FrameKind.SYN_STREAM, payload)

    def accept(self, stream: int) -> bytes:
        """The answer to a stream of the peer; nothing if it has been reset."""
        if stream not in self._streams:
            return b""
        return control_frame(FrameKind.SYN_REPLY, WORD.pack(stream) + self._packer.pack({}))

    def send(self, stream: int, chunk: bytes) -> bytes:
        """``chunk``; nothing if our side has ended, or the stream was reset."""
        return data_frames(stream, chunk) if chunk and self.is_writable(stream) else b""

    def end(self, stream: int) -> bytes:
        """The end of what we send on ``stream``."""
        if not self.is_writable(stream):
            return b""
        self._end(stream, _Sides.OURS)
        return data_frames(stream, b"", flags=FIN)

    def reset(self, stream: int, reason: ResetReason = ResetReason.CANCEL) -> bytes:
        """The end of a stream both ways; nothing if it is over."""
        if self._streams.pop(stream, None) is None:
            return b""
        return _reset_frame(stream, reason)

    def go_away(self) -> bytes:
        """A word to the peer that the connection is about to be closed."""
        return control_frame(FrameKind.GOAWAY, WORD.pack(self._last_of_peer) + WORD.pack(0))

    def is_open(self, stream: int) -> bool:
        """Whether a side may still send."""
        return stream in self._streams

    def is_writable(self, stream: int) -> bool:
        """Whether our side may still send."""
        return _Sides.OURS in self._streams.get(stream, _Sides.NONE)

    # --- from the peer ----------------------------------------------------------------------------------------------

    def feed(self, piece: bytes) -> Iterator[SpdyEvent]:
        """The events that come with ``piece``; read the iterator to its end.

        Raises:
            SpdyFault: the peer breaks the protocol.
        """
        for frame in self._splitter.split(piece):
            match frame:
                case DataPiece():
                    yield from self._take_data(frame)
                case ControlFrame():
                    yield from self._take_control(frame)

    def _take_data(self, piece: DataPiece) -> Iterator[SpdyEvent]:
        if _Sides.THEIRS not in self._streams.get(piece.stream, _Sides.NONE):
            self._check_opened(piece.stream)
            return
        if piece.chunk:
            yield SpdyData(piece.stream, piece.chunk)
        if piece.flags & FIN:
            yield from self._ended(piece.stream)

    def _take_control(self, frame: ControlFrame) -> Iterator[SpdyEvent]:
        match frame.kind:
            case FrameKind.SYN_STREAM:
                yield from self._opened(frame)
            case FrameKind.SYN_REPLY | FrameKind.HEADERS:
                stream = _number(frame.payload)
                self._unpacker.unpack(frame.payload[WORD.size :])
                if frame.flags & FIN:
                    yield from self._ended(stream)
            case FrameKind.RST_STREAM:
                stream = _number(frame.payload)
                if self._streams.pop(stream, None) is not None:
                    yield SpdyReset(stream)
            case FrameKind.PING:
                if _number(frame.payload) % 2 != self._role.value % 2:
                    yield SpdyAnswer(control_frame(FrameKind.PING, frame.payload))
            case FrameKind.GOAWAY:
                yield SpdyGoAway()
            case _:
                return  # settings, windows and kinds that are unknown change nothing

    def _opened(self, frame: ControlFrame) -> Iterator[SpdyEvent]:
        if len(frame.payload) < _OPENING_BYTES:
            raise SpdyFault("a SYN_STREAM is cut short")
        stream = _number(frame.payload)
        headers = self._unpacker.unpack(frame.payload[_OPENING_BYTES:])
        if stream <= self._last_of_peer or stream % 2 == self._role.value % 2:
            raise SpdyFault(f"the peer cannot open stream {stream}, after {self._last_of_peer}")
        self._last_of_peer = stream
        if len(self._streams) >= self._max_streams:
            yield SpdyAnswer(_reset_frame(stream, ResetReason.REFUSED_STREAM))
            return
        self._streams[stream] = _Sides.THEIRS if frame.flags & UNIDIRECTIONAL else _BOTH
        yield SpdyOpened(stream, headers)
        if frame.flags & FIN:
            yield from self._ended(stream)

    def _check_opened(self, stream: int) -> None:
        """Check that a stream which is not open has been."""
        last = self._next - 1 if stream % 2 == self._role.value % 2 else self._last_of_peer
        if stream == 0 or stream > last:
            raise SpdyFault(f"data comes for stream {stream}, which was never opened")

    def _ended(self, stream: int) -> Iterator[SpdyEvent]:
        if _Sides.THEIRS in self._streams.get(stream, _Sides.NONE):
            self._end(stream, _Sides.THEIRS)
            yield SpdyEnded(stream)

    def _end(self, stream: int, side: _Sides) -> None:
        left = self._streams[stream] & ~side
        if left:
            self._streams[stream] = left
        else:
            del self._streams[stream]


def _number(payload: bytes) -> int:
    """The stream, or the ping, that a control frame begins with."""
    if len(payload) < WORD.size:
        raise SpdyFault("a control frame is cut short")
    number = int(WORD.unpack_from(payload)[0]) & MAX_ID
    if number == 0:
        raise SpdyFault("a control frame has the number 0")
    return number


def _reset_frame(stream: int, reason: ResetReason) -> bytes:
    return control_frame(FrameKind.RST_STREAM, WORD.pack(stream) + WORD.pack(reason))
