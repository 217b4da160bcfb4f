"""Messages in the bytes of a stream: each has a byte for compression and four for its length before it."""

from __future__ import annotations

import struct
from typing import Final

from plugbay.errors import RpcCode, RpcFailed

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The most that Go's gRPC, and so a kubelet, receives; we take no more either."""
_PREFIX: Final = struct.Struct(">BI")


def frame(message: bytes) -> bytes:
    return _PREFIX.pack(0, len(message)) + message


class MessageReader:
    """Finds the messages in what arrives on one stream.

    Args:
        max_bytes: the longest message that is read.

    Attributes:
        encoding: the sender's compression. None is installed here.
    """

    def __init__(self, max_bytes: int) -> None:
        self.encoding = b"identity"
        self._max_bytes = max_bytes
        self._begun = bytearray()

    def read(self, data: bytes) -> list[bytes]:
        """The messages that ``data`` completes.

        Raises:
            RpcFailed: a message is too long, or compressed; nothing more can be read from the stream.
        """
        if self._begun:
            self._begun += data
            if not self._is_complete():
                return []
            data = bytes(self._begun)
            self._begun.clear()
        found: list[bytes] = []
        position, end = 0, len(data)
        while end - position >= _PREFIX.size:
            size = self._size(data, position)
            position += _PREFIX.size
            if end - position < size:
                position -= _PREFIX.size
                break
            found.append(data[position : position + size])
            position += size
        self._begun += data[position:]
        return found

    @property
    def is_within_message(self) -> bool:
        return bool(self._begun)

    def _is_complete(self) -> bool:
        """Whether the first message is all there: looked at for each piece, so that no piece is copied twice."""
        return len(self._begun) >= _PREFIX.size and len(self._begun) - _PREFIX.size >= self._size(self._begun, 0)

    def _size(self, data: bytes | bytearray, position: int) -> int:
        compression, size = _PREFIX.unpack_from(data, position)
        if compression:
            raise RpcFailed(RpcCode.INTERNAL, self._why_unreadable(compression))
        if size > self._max_bytes:
            raise RpcFailed(
                RpcCode.RESOURCE_EXHAUSTED, f"grpc: received message larger than max ({size} vs. {self._max_bytes})"
            )
        return int(size)

    def _why_unreadable(self, compression: int) -> str:
        if compression > 1:
            return f"grpc: received unexpected payload format {compression}"
        if self.encoding in {b"", b"identity"}:
            return "grpc: compressed flag set with identity or empty encoding"
        name = self.encoding.decode("latin-1")
        return f'grpc: Decompressor is not installed for grpc-encoding "{name}"'
