"""SPDY/3.1 frames, as far as the streams of a command need them. Pure.

Engines stream commands over SPDY or WebSocket; over WebSocket none of them lets a client end the command's input.

Left out is what no engine uses: flow control, and the dictionary for headers, which the zlib format leaves to the
sender. Headers that an engine sends are not read, as they say nothing.

Source: SPDY Protocol draft 3.1, sections 2.2 and 2.6; as spoken by ``moby/spdystream`` 0.2 in containerd and CRI-O.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

MAX_PAYLOAD: Final = 2**24 - 1

_HEAD: Final = struct.Struct(">II")
_WORD: Final = struct.Struct(">I")
_OPEN: Final = struct.Struct(">IIH")
_CONTROL: Final = 0x8003_0000
_FIN: Final = 0x01
_SYN_STREAM: Final = 1


@dataclass(frozen=True, slots=True)
class Data:
    """The kind of data that a stream carries."""

    stream: int
    chunk: bytes


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The other side sends nothing more on it."""

    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    """A ping; it has to be sent back as it is."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class GoAway:
    """The other side takes no more streams."""


Item = Data | StreamEnd | Ping | GoAway


class FrameWriter:
    """Makes the frames of one connection: what compresses headers remembers those before."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj()

    def open(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """A new stream, both ways; a client numbers its own 1, 3, 5 and so on."""
        block = _WORD.pack(len(headers)) + b"".join(map(_counted, (word for item in headers.items() for word in item)))
        packed = self._compressor.compress(block) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
        payload = _OPEN.pack(stream, 0, 0) + packed
        return _HEAD.pack(_CONTROL | _SYN_STREAM, len(payload)) + payload

    def send(self, stream: int, chunk: bytes) -> bytes:
        """``chunk``, in as many frames as it takes."""
        pieces = (chunk[start : start + MAX_PAYLOAD] for start in range(0, len(chunk), MAX_PAYLOAD))
        return b"".join(_HEAD.pack(stream, len(piece)) + piece for piece in pieces)

    def end(self, stream: int) -> bytes:
        """Nothing more comes on ``stream`` from our side."""
        return _HEAD.pack(stream, _FIN << 24)


class FrameReader:
    """Reads what the other side sends, from pieces of any size."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Item]:
        """The frames that are complete with ``chunk``.

        Raises:
            ValueError: this is not SPDY/3.
        """
        self._pending += chunk
        while len(self._pending) >= _HEAD.size:
            word, rest = _HEAD.unpack_from(self._pending)
            flags, size = rest >> 24, rest & MAX_PAYLOAD
            end = _HEAD.size + size
            if word >> 31 and word >> 16 != _CONTROL >> 16:
                raise ValueError(f"a frame of version {word >> 16 & 0x7FFF} is not SPDY/3")
            if len(self._pending) < end:
                return
            frame = bytes(self._pending[:end])
            del self._pending[:end]
            if word >> 31:
                yield from _control(word & 0xFFFF, frame)
            else:
                yield from _data(word, flags, frame[_HEAD.size :])


def _data(stream: int, flags: int, chunk: bytes) -> Iterator[Item]:
    if chunk:
        yield Data(stream, chunk)
    if flags & _FIN:
        yield StreamEnd(stream)


def _control(kind: int, frame: bytes) -> Iterator[Item]:
    match kind:
        case 3 if len(frame) >= _HEAD.size + _WORD.size:  # RST_STREAM
            yield StreamEnd(_WORD.unpack_from(frame, _HEAD.size)[0])
        case 6:  # PING
            yield Ping(frame)
        case 7:  # GOAWAY
            yield GoAway()
        case _:
            return  # settings, windows and the answers to our streams


def _counted(word: str) -> bytes:
    encoded = word.encode()
    return _WORD.pack(len(encoded)) + encoded
