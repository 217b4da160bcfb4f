"""Read a stream when its sender may be faster than its reader."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from plugbay.errors import RpcFailed

INTERVAL_S: Final = 0.1
"""The least time between messages in the long run; the first ones of a burst come as fast as they are sent."""
BURST_S: Final = 1.0
_SHARE: Final = 4
"""The reader of a burst gets one part in this many of the processor's time."""
_MAX_UNREAD: Final = 8
_TURNS: Final = 4


async def newest(messages: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """``messages`` as long as their reader keeps up, and only the newest where it does not.

    A sender that never pauses is read every `INTERVAL_S`, or less often if the reader takes longer over a message. One
    that waits for what its message does is never kept waiting.

    Raises:
        RpcFailed: as ``messages`` does.
    """
    unread: deque[bytes] = deque()
    failures: list[RpcFailed] = []
    arrived = asyncio.Event()

    async def read() -> None:
        try:
            async with aclosing(messages):
                async for message in messages:
                    if len(unread) == _MAX_UNREAD:
                        unread.clear()
                    unread.append(message)
                    arrived.set()
        except RpcFailed as error:
            failures.append(error)
        finally:
            arrived.set()

    reading = asyncio.create_task(read(), name="read a stream")
    try:
        pace = _Pace()
        while True:
            await arrived.wait()
            arrived.clear()
            while unread:
                began = time.thread_time()
                yield unread.popleft()
                spent_s = time.thread_time() - began
                await _let_arrive()
                if unread:  # more is there already: the sender is faster than the reader
                    await pace.read(spent_s)
            if reading.done():
                break
    finally:
        reading.cancel()
        await asyncio.wait([reading])
    reading.result()  # a defect of ours; a call that failed is among the failures
    if failures:
        raise failures.pop()  # of which nothing here may keep hold: it holds the call, and that the connection


async def _let_arrive() -> None:
    """Let the loop run the turns after which messages that were sent meanwhile count as unread."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


class _Pace:
    def __init__(self) -> None:
        self._due = 0.0

    async def read(self, spent_s: float) -> None:
        """Wait after a message, in proportion to the processor time that the reader spent on it."""
        now = asyncio.get_running_loop().time()
        self._due = max(now, self._due) + max(INTERVAL_S, _SHARE * spent_s)
        if (ahead_s := self._due - now - BURST_S) > 0:
            await asyncio.sleep(ahead_s)
