"""The frames of HTTP/2: their kinds and flags, and how they are written.

Source: RFC 9113 sections 4.1 and 6.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of a client. Source: RFC 9113 section 3.4."""

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY_FLAG: Final = 0x20

SMALLEST_MAX_FRAME: Final = 16_384
LARGEST_MAX_FRAME: Final = 2**24 - 1
MAX_STREAM_ID: Final = 2**31 - 1

HEAD: Final = struct.Struct(">IBI")
"""Length and kind in one word, flags, stream."""
WORD: Final = struct.Struct(">I")
TWO_WORDS: Final = struct.Struct(">II")

SETTINGS_ACK: Final = HEAD.pack(SETTINGS, ACK, 0)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Any frame; ``payload`` is not longer than the peer takes."""
    return HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def rst_stream(stream: int, code: int) -> bytes:
    """End a stream at once."""
    return HEAD.pack(4 << 8 | RST_STREAM, 0, stream) + WORD.pack(code)


def window_update(stream: int, increment: int) -> bytes:
    """Let the peer send ``increment`` bytes more; stream 0 is the connection."""
    return HEAD.pack(4 << 8 | WINDOW_UPDATE, 0, stream) + WORD.pack(increment)


def goaway(last_stream: int, code: int, debug: bytes) -> bytes:
    """Tell that no stream above ``last_stream`` is, or will be, looked at."""
    return frame(GOAWAY, 0, 0, TWO_WORDS.pack(last_stream, code) + debug)


def headers(stream: int, block: bytes, flags: int, max_frame: int) -> Iterator[bytes]:
    """HEADERS with ``block``, and CONTINUATIONs with what does not fit into a frame of ``max_frame`` bytes.

    Args:
        flags: END_STREAM or 0.
    """
    if len(block) <= max_frame:
        yield HEAD.pack(len(block) << 8 | HEADERS, flags | END_HEADERS, stream)
        yield block
        return
    yield frame(HEADERS, flags, stream, block[:max_frame])
    for start in range(max_frame, len(block), max_frame):
        piece = block[start : start + max_frame]
        yield frame(CONTINUATION, END_HEADERS if start + max_frame >= len(block) else 0, stream, piece)
