"""Frames of ``exec``: one byte channel, four bytes length, payload; pure."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from plugbay.node.runtimes.exec_input import TerminalSize
from plugbay.node.runtimes.port import ExecExit, ExecOutput

STDIN: Final = 0
STDERR: Final = 2
EXIT: Final = 3
RESIZE: Final = 4

_HEAD: Final = struct.Struct(">BI")
_MAX_PAYLOAD: Final = 1024 * 1024
_Side = Annotated[int, msgspec.Meta(ge=0, le=2**16 - 1)]


class _Size(msgspec.Struct):
    width: _Side
    height: _Side


_SIZE: Final = msgspec.json.Decoder(_Size)


def encode(item: ExecOutput | ExecExit) -> bytes:
    """What a command printed, or how it ended."""
    match item:
        case ExecOutput(stream, chunk):
            return frame(stream.value, chunk)
        case ExecExit(exit_code):
            return frame(EXIT, json.dumps({"exitCode": exit_code}).encode())


def frame(channel: int, payload: bytes) -> bytes:
    return _HEAD.pack(channel, len(payload)) + payload


class InputDecoder:
    """Reads what a client gives a command, from pieces of any size."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, chunk: bytes) -> Iterator[bytes | TerminalSize]:
        """What is complete with ``chunk``; empty bytes are the end of the input.

        Raises:
            ValueError: these are no frames of a client.
        """
        self._pending += chunk
        while len(self._pending) >= _HEAD.size:
            channel, size = _HEAD.unpack_from(self._pending)
            if size > _MAX_PAYLOAD:
                raise ValueError(f"a frame of {size} bytes is too large, at most {_MAX_PAYLOAD} are read")
            end = _HEAD.size + size
            if len(self._pending) < end:
                return
            payload, self._pending = self._pending[_HEAD.size : end], self._pending[end:]
            yield _decode(channel, payload)


def _decode(channel: int, payload: bytes) -> bytes | TerminalSize:
    match channel:
        case 0:
            return payload
        case 4:
            return _size(payload)
        case _:
            raise ValueError(f"a client has no channel {channel}")


def _size(payload: bytes) -> TerminalSize:
    try:
        size = _SIZE.decode(payload)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise ValueError('the size of a terminal wants {"width": W, "height": H}') from None
    return TerminalSize(size.width, size.height)
