"""Limits of what the clients of an HTTP server may cost."""

from __future__ import annotations

import asyncio
from typing import Final

from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the time and memory that clients may take.

    Attributes:
        body_bytes: larger requests are refused with 413. 4 MiB holds any Pod: etcd takes 1.5 MiB.
        head_bytes: request line and headers together, to the nearest read. Browsers send a tenth of it.
        idle_s: how long a connection is kept for another request.
        read_s: for a request to arrive whole, from its first byte.
        write_s: for a client to take a response that is complete.
        connections: open at a time. For one more, the oldest idle one is closed.
        requests: on one connection, which is closed after them.
        interval_s: between two steps of all clients together; a step is a connection, a read or a request.
        streams_yield: whether the oldest stream is closed for one more connection, if nothing else can be.
    """

    body_bytes: int = 4 * 1024 * 1024
    head_bytes: int = 64 * 1024
    idle_s: float = 75
    read_s: float = 30
    write_s: float = 30
    connections: int = 500
    requests: int = 10_000
    interval_s: float = 0
    streams_yield: bool = False


PAGES: Final = Limits(
    body_bytes=0,
    head_bytes=8 * 1024,
    idle_s=10,
    read_s=10,
    write_s=10,
    connections=64,
    requests=100,
    interval_s=0.004,
)
"""The limits of pages that any client may ask for: 250 steps a second, of 0.1 to 5 ms, and the process's duties between
them.

A thread for the pages would cost more: beside a busy thread the loop was seen to wait 6 ms for the interpreter's lock
each time it wakes, and 19 ms at worst.
"""


class Pace:
    """Lets tasks go on one after the other, in the order in which they ask, and other tasks in between.

    Args:
        interval_s: from one to the next.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._next = 0.0

    async def turn(self) -> None:
        """Wait until it is the caller's turn; other tasks run at least once meanwhile."""
        now = asyncio.get_running_loop().time()
        turn = max(now, self._next)
        self._next = turn + self._interval_s
        await asyncio.sleep(turn - now)
