"""How long the event loop is held: in processor time, so that a busy machine does not look like a busy loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

HELD_S = 0.5
"""Far more than any step takes, and far less than what a loop would be held by one of the attacks without bounds."""


class LoopTime:
    """The longest time between two turns of the loop in which nothing else could run."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            self.longest_s = max(self.longest_s, now - before)
            before = now


@asynccontextmanager
async def loop_time() -> AsyncIterator[LoopTime]:
    """Measured while the block runs."""
    measured = LoopTime()
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(measured.watch())
        try:
            yield measured
        finally:
            watching.cancel()
