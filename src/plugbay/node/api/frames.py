"""The frames in which a command's input and output travel between client and node: pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

_HEAD: Final = struct.Struct(">BI")


class Channel(IntEnum):
    """What a frame carries."""

    STDIN = 0
    """From the client; an empty one is the end of the input."""
    STDOUT = 1
    """With a terminal, all that the command prints."""
    STDERR = 2
    EXIT = 3
    """JSON with the exit code; the last one."""
    RESIZE = 4
    """From the client: JSON with the width and height of its terminal."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One piece, with where it belongs."""

    channel: Channel
    payload: bytes

    def encode(self) -> bytes:
        return _HEAD.pack(self.channel, len(self.payload)) + self.payload


class FrameDecoder:
    """Puts frames together again that arrive in pieces.

    Args:
        max_payload: of each frame; None takes any, from a peer that we trust.
    """

    def __init__(self, *, max_payload: int | None = None) -> None:
        self._max_payload = max_payload
        self._pending = b""

    @property
    def is_broken_off(self) -> bool:
        """Whether the end now would be in the middle of a frame."""
        return bool(self._pending)

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The frames that are complete with ``chunk``; to be read to the end.

        Raises:
            ValueError: these are no frames, or one is too large.
        """
        self._pending += chunk
        while len(self._pending) >= _HEAD.size:
            channel, size = _HEAD.unpack_from(self._pending)
            if self._max_payload is not None and size > self._max_payload:
                raise ValueError(f"a frame of {size} bytes is too large, at most {self._max_payload} are read")
            end = _HEAD.size + size
            if len(self._pending) < end:
                return
            payload, self._pending = self._pending[_HEAD.size : end], self._pending[end:]
            yield Frame(_channel(channel), payload)


def _channel(number: int) -> Channel:
    try:
        return Channel(number)
    except ValueError:
        raise ValueError(f"there is no channel {number}") from None
