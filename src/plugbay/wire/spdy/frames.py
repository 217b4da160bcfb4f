"""SPDY/3.1 frames: split from pieces of any size, and made. Pure.

Source: SPDY Protocol draft 3.1, sections 2.2 and 2.6; ``moby/spdystream`` 0.5 ``spdy/read.go``, ``spdy/write.go``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from plugbay.values import dataclass

MAX_CONTROL_BYTES: Final = 64 * 1024
"""The largest payload of a control frame; those of Kubernetes have less than 100 bytes."""
MAX_PAYLOAD: Final = 2**24 - 1
MAX_ID: Final = 2**31 - 1
FIN: Final = 0x01
UNIDIRECTIONAL: Final = 0x02
WORD: Final = struct.Struct(">I")

_HEAD: Final = struct.Struct(">II")
_CONTROL: Final = 0x8003_0000
_CONTROL_BIT: Final = 0x8000_0000


class SpdyFault(ValueError):
    """The peer breaks SPDY/3.1; the connection has no future."""


class FrameKind(IntEnum):
    """The kinds of control frames."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class ResetReason(IntEnum):
    """The status of a RST_STREAM."""

    PROTOCOL_ERROR = 1
    INVALID_STREAM = 2
    REFUSED_STREAM = 3
    CANCEL = 5


@dataclass(frozen=True, slots=True)
class ControlFrame:
    """A control frame; ``kind`` may be one that is not in `FrameKind`."""

    kind: int
    flags: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class DataPiece:
    """A part of a data frame, as it came.

    Attributes:
        flags: those of the frame, for its last piece only.
    """

    stream: int
    flags: int
    chunk: bytes


def control_frame(kind: FrameKind, payload: bytes, *, flags: int = 0) -> bytes:
    return _HEAD.pack(_CONTROL | kind, flags << 24 | len(payload)) + payload


def data_frames(stream: int, chunk: bytes, *, flags: int = 0) -> bytes:
    """``chunk`` in as many frames as it takes; the last one has ``flags``."""
    frames = []
    for start in range(0, max(len(chunk), 1), MAX_PAYLOAD):
        piece = chunk[start : start + MAX_PAYLOAD]
        is_last = start + MAX_PAYLOAD >= len(chunk)
        frames += [_HEAD.pack(stream, (flags if is_last else 0) << 24 | len(piece)), piece]
    return b"".join(frames)


class SpdySplitter:
    """Splits bytes into frames. Data is passed on as it comes, so that only control frames are ever gathered."""

    def __init__(self) -> None:
        self._gathered = bytearray()
        self._stream = 0
        self._flags = 0
        self._left = 0
        """The bytes that are still to come of a data frame."""

    def split(self, piece: bytes) -> Iterator[ControlFrame | DataPiece]:
        """The frames, or parts of them, that come with ``piece``. Read the iterator to its end.

        Raises:
            SpdyFault: this is not SPDY/3, or a frame is too large.
        """
        at = 0
        while at < len(piece):
            if self._left:
                chunk = piece[at : at + self._left]
                at += len(chunk)
                self._left -= len(chunk)
                yield DataPiece(self._stream, 0 if self._left else self._flags, chunk)
                continue
            missing = self._missing()
            self._gathered += piece[at : at + missing]
            at += missing
            if self._missing():
                continue  # to the head's frame, or to the end of the piece
            frame = bytes(self._gathered)
            self._gathered.clear()
            first, second = _HEAD.unpack_from(frame)
            if first & _CONTROL_BIT:
                yield ControlFrame(first & 0xFFFF, second >> 24, frame[_HEAD.size :])
                continue
            self._stream, self._flags, self._left = first, second >> 24, second & MAX_PAYLOAD
            if not self._left:
                yield DataPiece(self._stream, self._flags, b"")

    def _missing(self) -> int:
        """The number of bytes that are missing for the next step: a head, and for a control frame all of it."""
        if len(self._gathered) < _HEAD.size:
            return _HEAD.size - len(self._gathered)
        first, second = _HEAD.unpack_from(self._gathered)
        if not first & _CONTROL_BIT:
            return 0
        if first >> 16 != _CONTROL >> 16:
            raise SpdyFault(f"a frame of version {first >> 16 & 0x7FFF} is not SPDY/3")
        size: int = second & MAX_PAYLOAD
        if size > MAX_CONTROL_BYTES:
            raise SpdyFault(f"a control frame of {size} bytes is too large, at most {MAX_CONTROL_BYTES} are read")
        return _HEAD.size + size - len(self._gathered)
