"""Flow control: how many bytes of DATA may be on their way.

A sender's window is a number that may be negative, after the receiver has lowered it. A receiver's window is given back
in large pieces, so that not every frame is answered by another one.

Source: RFC 9113 sections 5.2 and 6.9.
"""

from __future__ import annotations

from typing import Final

DEFAULT_WINDOW: Final = 65_535
MAX_WINDOW: Final = 2**31 - 1


class ReceiveWindow:
    """The bytes that a peer may send on a stream or a connection before the reader has consumed some.

    Attributes:
        size: how many may be unconsumed at the same time.
        left: how many the peer may still send.
        due: how many were consumed and are not given back yet.
    """

    __slots__ = ("due", "left", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.left = size
        self.due = 0

    def consume(self, count: int) -> int:
        """Take note that the reader has taken ``count`` bytes; return how many the peer is to be given back now.

        Raises:
            RuntimeError: more was consumed than received, which is a defect of the reader.
        """
        self.due += count
        if self.due + self.left > self.size:
            raise RuntimeError(f"{self.due + self.left - self.size} bytes more were consumed than received")
        if self.due * 2 < self.size:
            return 0
        given, self.due = self.due, 0
        self.left += given
        return given
