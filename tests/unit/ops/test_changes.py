from __future__ import annotations

import asyncio

from plugbay.ops.changes import Changes, Inbox


async def test_moves_between_two_looks_count_once() -> None:
    changes = Changes()
    reader = aiter(changes)
    await anext(reader)
    for _ in range(3):
        changes.notify()
    async with asyncio.timeout(30):
        await anext(reader)
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    assert not waiting.done()
    changes.notify()
    async with asyncio.timeout(30):
        await waiting


async def test_a_condition_is_asked_at_once_and_after_each_change() -> None:
    changes = Changes()
    seen: list[int] = []
    async with asyncio.timeout(30):
        await changes.until(lambda: True)
        waiting = asyncio.ensure_future(changes.until(lambda: len(seen) == 2))
        for number in range(2):
            await asyncio.sleep(0)
            assert not waiting.done()
            seen.append(number)
            changes.notify()
        await waiting


async def test_an_item_that_comes_again_is_there_once() -> None:
    inbox = Inbox[str]()
    for item in ("p", "q", "p"):
        inbox.put([item])
    async with asyncio.timeout(30):
        assert await inbox.take() == ("p", "q")


async def test_items_wait_for_a_reader_and_a_reader_for_items() -> None:
    inbox = Inbox[int]()
    waiting = asyncio.ensure_future(anext(aiter(inbox)))
    inbox.put([])
    await asyncio.sleep(0)
    assert not waiting.done()
    inbox.put(range(200))
    async with asyncio.timeout(30):
        assert await waiting == tuple(range(200))


async def test_cancelled_wait_loses_nothing() -> None:
    inbox = Inbox[str]()
    waiting = asyncio.ensure_future(inbox.take())
    await asyncio.sleep(0)
    waiting.cancel()
    inbox.put(["p"])
    await asyncio.wait([waiting])
    async with asyncio.timeout(30):
        assert await inbox.take() == ("p",)


async def test_the_oldest_are_forgotten_when_nobody_reads() -> None:
    inbox = Inbox[int](most=3)
    inbox.put(range(5))
    assert await inbox.take() == (2, 3, 4)
