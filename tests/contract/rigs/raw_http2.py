"""HTTP/2 frames, for what no gRPC client sends. Source: RFC 9113 section 4.1, RFC 7541 section 6.2.2."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Final

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS = 0, 1, 3, 4
_END_STREAM, _END_HEADERS = 1, 4
_CANCEL: Final = 8
_NO_MESSAGE: Final = b"\0\0\0\0\0"


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _headers(path: str) -> bytes:
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


async def open_connection(socket: Path) -> asyncio.StreamWriter:
    """A connection to a gRPC server that reads nothing unless it is told to."""
    _, writer = await asyncio.open_unix_connection(str(socket))
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # every socket's transport can
    writer.write(_PREFACE + _frame(_SETTINGS, 0, 0, b""))
    return writer


def call(path: str) -> bytes:
    """The first call on a connection, with an empty message."""
    return begin_call(path) + end_of_call()


def begin_call(path: str) -> bytes:
    return _frame(_HEADERS, _END_HEADERS, 1, _headers(path))


def end_of_call() -> bytes:
    return _frame(_DATA, _END_STREAM, 1, _NO_MESSAGE)


def call_and_reset(path: str, number: int) -> bytes:
    """The call of this number, from 0 on, given up at once."""
    stream = 2 * number + 1
    reset = _frame(_RST_STREAM, 0, stream, struct.pack(">I", _CANCEL))
    return _frame(_HEADERS, _END_HEADERS, stream, _headers(path)) + reset
