"""The frames of a command that runs: its output and end, and the input from a client. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from plugbay.node.api.streams.frames import ExecChannel, Frame, FrameDecoder
from plugbay.runtimes.exec_input import TerminalSize
from plugbay.runtimes.port import ExecExit, ExecOutput

_MAX_PAYLOAD: Final = 1024 * 1024
_Side = Annotated[int, msgspec.Meta(ge=0, le=2**16 - 1)]


class _Size(msgspec.Struct):
    width: _Side
    height: _Side


_SIZE: Final = msgspec.json.Decoder(_Size)


def encode(item: ExecOutput | ExecExit) -> bytes:
    """The frames for what a command printed, or for how it ended."""
    match item:
        case ExecOutput(stream, chunk):
            return Frame(ExecChannel(stream.value), chunk).encode()
        case ExecExit(exit_code):
            return Frame(ExecChannel.EXIT, json.dumps({"exitCode": exit_code}).encode()).encode()


class InputDecoder:
    """Reads what a client gives a command, from pieces of any size."""

    def __init__(self) -> None:
        self._frames = FrameDecoder(max_payload=_MAX_PAYLOAD)

    def feed(self, chunk: bytes) -> Iterator[bytes | TerminalSize]:
        """The input that is complete with ``chunk``; empty bytes are the end of the input.

        Raises:
            ValueError: the bytes are not frames of a client.
        """
        return map(_decode, self._frames.feed(chunk))

    def refusal(self, problem: str) -> bytes:
        """The last words to a client that has broken the protocol."""
        return Frame(ExecChannel.STDERR, f"error: {problem}\n".encode()).encode()


def _decode(frame: Frame) -> bytes | TerminalSize:
    match frame.channel:
        case ExecChannel.STDIN:
            return frame.payload
        case ExecChannel.RESIZE:
            return _size(frame.payload)
        case other:
            raise ValueError(f"a client has no channel {other.value}")


def _size(payload: bytes) -> TerminalSize:
    try:
        size = _SIZE.decode(payload)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise ValueError('the size of a terminal must be {"width": W, "height": H}') from None
    return TerminalSize(size.width, size.height)
