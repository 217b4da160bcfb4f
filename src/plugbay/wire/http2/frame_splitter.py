"""The bytes of a peer, split into frames.

Source: RFC 9113 sections 3.4, 4.1 and 4.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.wire.http2.codes import ConnectionFault, ErrorCode
from plugbay.wire.http2.frames import HEAD, MAX_STREAM_ID, PREFACE

_HTTP_1: Final = int.from_bytes(b"HTT")
"""The length that the first bytes of an answer in HTTP/1 seem to be."""


class FrameSplitter:
    """Splits bytes that come in pieces of any size.

    What is complete is read from the piece where it lies; only a frame that goes on in the next piece is gathered.

    Args:
        preface: that the peer has to send first.
        max_frame: the largest payload that is taken.
    """

    def __init__(self, preface: bytes, max_frame: int) -> None:
        self._preface = preface
        self._max_frame = max_frame
        self._gathered = bytearray()
        self._wanted = HEAD.size
        """So many bytes are gathered before they are looked at: a head, and then a whole frame."""

    @property
    def is_within_frame(self) -> bool:
        return bool(self._gathered)

    def split(self, piece: bytes) -> Iterator[tuple[int, int, int, bytes]]:
        """The frames that are complete with ``piece``: kind, flags, stream, payload. Read the iterator to its end.

        Raises:
            ConnectionFault: a frame is too large, or the preface is another one.
        """
        if self._preface:
            piece = self._without_preface(piece)
        at, end = 0, len(piece)
        if self._gathered:
            at = self._gather(piece)
            if len(self._gathered) < self._wanted:
                return
            frame = bytes(self._gathered)
            self._gathered.clear()
            self._wanted = HEAD.size
            word, flags, stream = HEAD.unpack_from(frame)
            yield word & 0xFF, flags, stream & MAX_STREAM_ID, frame[HEAD.size :]
        while end - at >= HEAD.size:
            word, flags, stream = HEAD.unpack_from(piece, at)
            length = word >> 8
            if length > self._max_frame:
                raise self._too_large(length)
            start = at + HEAD.size
            stop = start + length
            if stop > end:
                self._wanted = HEAD.size + length
                break
            at = stop
            yield word & 0xFF, flags, stream & MAX_STREAM_ID, piece[start:stop]
        if at < end:
            self._gathered += piece[at:] if at else piece

    def _gather(self, piece: bytes) -> int:
        """Take as much of ``piece`` as belongs to the frame that has begun; return how much that was."""
        gathered = self._gathered
        at = self._wanted - len(gathered)
        gathered += piece[:at]
        if self._wanted == HEAD.size and len(gathered) == HEAD.size:
            length = HEAD.unpack_from(gathered)[0] >> 8
            if length > self._max_frame:
                raise self._too_large(length)
            self._wanted = HEAD.size + length
            rest = piece[at : at + length]
            gathered += rest
            at += len(rest)
        return min(at, len(piece))

    def _without_preface(self, piece: bytes) -> bytes:
        expected = self._preface[: len(piece)]
        if not piece.startswith(expected):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, _wrong_preface(piece))
        self._preface = self._preface[len(expected) :]
        return piece[len(expected) :]

    def _too_large(self, length: int) -> ConnectionFault:
        reason = f"a frame has {length} bytes, and at most {self._max_frame} are taken"
        if length == _HTTP_1:
            reason += "; it looks like an answer in HTTP/1"
        return ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, reason)


def _wrong_preface(piece: bytes) -> str:
    return f"the peer does not begin as an HTTP/2 client: {piece[: len(PREFACE)]!r}"
