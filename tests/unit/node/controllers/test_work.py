"""The queue of the loop."""

from __future__ import annotations

import asyncio

from plugbay.node.controllers.work import WorkQueue
from plugbay.ops.changes import Changes
from plugbay.testing.fake_node import DEADLINE_S, NappingClock


async def sleeping(clock: NappingClock, moved: Changes, *naps: float) -> None:
    """Return when the clock was asked to sleep for so long, time after time."""
    async for _ in moved:
        if clock.naps == list(naps):
            return


async def test_keys_come_once_now_or_at_their_moment() -> None:
    moved = Changes()
    clock = NappingClock(moved)
    queue = WorkQueue[str](clock)
    keys = aiter(queue)
    queue.put_later("late", 20)
    queue.put_later("soon", 10)
    queue.put_later("never", 5)
    queue.put_later("never", None)
    queue.put("b")
    queue.put("a")
    queue.put("b")
    async with asyncio.timeout(DEADLINE_S):
        assert [await anext(keys), await anext(keys)] == ["b", "a"]
        waiting = asyncio.ensure_future(anext(keys))
        await sleeping(clock, moved, 10)
        clock.advance(10)
        assert await waiting == "soon"
        queue.put("again")
        assert await anext(keys) == "again"
        clock.advance(10)
        assert await anext(keys) == "late"


async def test_a_sooner_moment_sets_the_timer_anew() -> None:
    moved = Changes()
    clock = NappingClock(moved)
    queue = WorkQueue[str](clock)
    queue.put_later("late", 100)
    waiting = asyncio.ensure_future(anext(aiter(queue)))
    async with asyncio.timeout(DEADLINE_S):
        await sleeping(clock, moved, 100)
        queue.put_later("soon", 1)
        await sleeping(clock, moved, 100, 1)
        clock.advance(1)
        assert await waiting == "soon"
