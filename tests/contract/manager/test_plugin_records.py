"""Plugins are recorded, and which of them want PreStartContainer: no start after a restart goes without it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plugbay.errors import StoreUnusable
from plugbay.manager.store.commits import Change, DeleteResource, SavePreStarts, SaveResource
from plugbay.manager.store.store import RETRY_S, Store
from plugbay.model.devices import PluginOptions
from tests.contract.rigs.manager import DEADLINE_S, GOPHER, OTHER, Bench, bench
from tests.contract.scenarios.test_11_4_lists import expired

ASKS: Final = PluginOptions(pre_start_required=True)


class SmallStore(Store):
    """A store of which a test sees the commits, and whose disk may be full or slow."""

    def __init__(self, b: Bench) -> None:
        self._around = b.manager._store
        self._written: asyncio.Queue[Change] = asyncio.Queue()
        self.is_full = False
        self.is_quick = asyncio.Event()
        self.is_quick.set()
        self.asked = asyncio.Event()
        b.manager.endpoints._unsaved._store = self

    async def commit(self, changes: Sequence[Change]) -> None:
        if self.is_full:
            raise StoreUnusable("manager.db", "disk is full")
        self.asked.set()
        await self.is_quick.wait()
        await self._around.commit(changes)
        for change in changes:
            self._written.put_nowait(change)

    async def until_written(self, change: Change) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while await self._written.get() != change:
                pass


async def test_what_could_not_be_recorded_is_recorded_when_there_is_room(sockets: Path) -> None:
    async with bench(sockets) as b:
        store = SmallStore(b)
        store.is_full = True
        await b.plugin("a", options=ASKS)
        await b.clock.sleep_through(RETRY_S)
        await b.clock.until_asleep(RETRY_S)
        await b.plugin("x", resource=OTHER, options=ASKS)
        store.is_full = False
        await b.clock.sleep_through(RETRY_S)
        await store.until_written(SavePreStarts(frozenset({GOPHER, OTHER})))
        assert b.clock.asleep.count(RETRY_S) == 0


async def test_what_could_not_be_recorded_is_recorded_with_the_next_plugin(sockets: Path) -> None:
    async with bench(sockets) as b:
        store = SmallStore(b)
        store.is_full = True
        await b.plugin("a", options=ASKS)
        store.is_full = False
        await b.plugin("x", resource=OTHER)
        await store.until_written(SavePreStarts(frozenset({GOPHER})))


async def test_record_goes_with_the_plugin_that_does_not_come_back(sockets: Path) -> None:
    async with bench(sockets) as b:
        store = SmallStore(b)
        plugin = await b.plugin("a", options=ASKS)
        await store.until_written(SavePreStarts(frozenset({GOPHER})))
        await expired(b, plugin)
        await store.until_written(SavePreStarts(frozenset()))


async def test_resource_that_could_not_be_recorded_is_recorded_when_there_is_room(sockets: Path) -> None:
    async with bench(sockets) as b:
        store = SmallStore(b)
        store.is_full = True
        await b.plugin("a")
        await b.clock.until_asleep(RETRY_S)
        store.is_full = False
        await b.clock.sleep_through(RETRY_S)
        await store.until_written(SaveResource(GOPHER))


async def test_resource_that_could_not_be_forgotten_is_forgotten_when_there_is_room(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a")
        store = SmallStore(b)
        store.is_full = True
        await expired(b, plugin)
        await b.clock.until_asleep(RETRY_S)
        store.is_full = False
        await b.clock.sleep_through(RETRY_S)
        await store.until_written(DeleteResource(GOPHER))


async def test_last_wish_is_recorded_though_an_earlier_one_is_just_being_written(sockets: Path) -> None:
    async with bench(sockets) as b, asyncio.TaskGroup() as tasks:
        store = SmallStore(b)
        store.is_quick.clear()
        tasks.create_task(b.manager.endpoints._note_pre_start(GOPHER, is_wanted=True))
        await store.asked.wait()
        tasks.create_task(b.manager.endpoints._note_pre_start(GOPHER, is_wanted=False))
        await asyncio.sleep(0)
        store.is_quick.set()
        await store.until_written(SavePreStarts(frozenset({GOPHER})))
        await store.until_written(SavePreStarts(frozenset()))
