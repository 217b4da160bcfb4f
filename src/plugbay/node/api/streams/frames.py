"""The frames in which a command's input and output travel between client and node: pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

_HEAD: Final = struct.Struct(">BI")


class ExecChannel(IntEnum):
    """The kind of content that a frame carries."""

    STDIN = 0
    """Input from the client; an empty frame is its end."""
    STDOUT = 1
    """Standard output; with a terminal, all that the command prints."""
    STDERR = 2
    EXIT = 3
    """JSON with the exit code; this is the last frame."""
    RESIZE = 4
    """A message from the client: JSON with the width and height of its terminal."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One piece, with where it belongs."""

    channel: ExecChannel
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
        """Take in ``chunk`` and yield the frames that it completes; read the iterator to its end.

        Raises:
            ValueError: the bytes are not frames, or a frame is too large.
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


def _channel(number: int) -> ExecChannel:
    try:
        return ExecChannel(number)
    except ValueError:
        raise ValueError(f"there is no channel {number}") from None
