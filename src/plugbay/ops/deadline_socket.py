"""A socket whose whole conversation has one deadline: a timeout counts from each piece that comes, so a peer that sends
a byte now and then would never end it."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


class DeadlineSocket(socket.socket):
    """A stream socket of which connecting, sending and receiving raise TimeoutError when the time is over.

    Only what `http.client` calls has the deadline. Timeouts that are set on it do not last.

    Args:
        end: of ``time.monotonic()``.
    """

    def __init__(self, family: int, *, end: float) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._end = end

    def connect(self, address: object) -> None:
        self._hurry()
        super().connect(address)  # type: ignore[arg-type]  # as the family has it

    def sendall(self, data: ReadableBuffer, flags: int = 0, /) -> None:
        self._hurry()
        super().sendall(data, flags)

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> int:
        self._hurry()
        return super().recv_into(buffer, nbytes, flags)

    def _hurry(self) -> None:
        left_s = self._end - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the time is over")
        self.settimeout(left_s)
