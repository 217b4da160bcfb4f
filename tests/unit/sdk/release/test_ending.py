"""What is released of a use that is over, when a hook or the disk fails in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay import Assignment, Device, DevicePlugin, Origin, ReleasePolicy
from plugbay.errors import HookFailed, PathUnusable
from plugbay.model.assignments import AssignmentKey
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.sdk.hooks.turns import Turns
from plugbay.sdk.release.ending import Ends
from plugbay.sdk.release.hooks import ReleaseHooks
from plugbay.sdk.release.ledger.journal import Journal
from plugbay.sdk.release.ledger.ledger import Ledger, Trouble
from plugbay.sdk.release.uses import Use
from tests.unit.sdk.release.contexts import context_of
from tests.unit.sdk.release.test_journal import full_after

GOPHER = ResourceName("example.com/gopher")
DEVICE, FIRST, SECOND = DeviceId("a"), DeviceId("a::0"), DeviceId("a::1")


class Cleaner(DevicePlugin):
    """Its hooks fail as often as told."""

    resource_name = GOPHER
    release_policy = ReleasePolicy.LAZY

    def __init__(self) -> None:
        self.fails = {"post_stop": 0, "release": 0}
        self.released: list[tuple[DeviceId, ...]] = []
        self.stopped: list[AssignmentKey] = []

    def discover(self) -> Sequence[Device]:
        return []

    async def post_stop(self, assignment: Assignment) -> None:
        self._fail("post_stop")
        self.stopped.append(assignment.key)

    async def release(self, assignment: Assignment) -> None:
        self._fail("release")
        self.released.append(assignment.device_ids)

    def _fail(self, hook: str) -> None:
        if self.fails[hook]:
            self.fails[hook] -= 1
            raise RuntimeError("busy")


class Bench:
    def __init__(self, directory: Path) -> None:
        self.plugin = Cleaner()
        self.ledger = Ledger(Journal(directory, GOPHER, "boot"), GOPHER, Trouble.LOGGED)
        self.hooks = ReleaseHooks()
        self.ending = Ends(context_of(self.plugin, self.ledger, directory), self.hooks, Turns())

    def give(self, unit: DeviceId) -> Use:
        """A use of a share, whose container has started."""
        use = self.ledger.begin({unit: DEVICE}, "life")
        self.ledger.answered(use.key)
        self.ledger.change(replace(use, started=frozenset([unit])))
        return use


@asynccontextmanager
async def bench(directory: Path) -> AsyncIterator[Bench]:
    made = Bench(directory)
    made.ledger.open()
    running = asyncio.create_task(made.hooks.run())
    await asyncio.sleep(0)
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.wait([running])
        made.ledger.close()


@pytest.mark.parametrize("hook", ["post_stop", "release"])
async def test_device_given_again_between_a_failure_and_its_repeat_is_not_released(tmp_path: Path, hook: str) -> None:
    async with bench(tmp_path) as made:
        over = made.give(FIRST)
        made.plugin.fails[hook] = 1
        with pytest.raises(HookFailed, match=rf"{hook}\(.*\) failed: RuntimeError"):
            await made.ending.end(over.key, Origin.SYNTHESISED)
        assert made.ending.counts["failed"] == 1
        going_on = made.give(SECOND)
        await made.ending.end(over.key, Origin.SYNTHESISED)
        assert made.plugin.released == []
        await made.ending.end(going_on.key, Origin.SYNTHESISED)
        assert made.plugin.released == [(DEVICE,)]


async def test_release_that_a_full_disk_keeps_from_being_written_down_is_not_over(tmp_path: Path) -> None:
    """Or it would be asked for again at once, without end, and the device be taken for in use."""
    async with bench(tmp_path) as made:
        over = made.give(FIRST)
        made.ledger.end(over.key, Origin.SYNTHESISED)
        with full_after(0):
            for _ in range(2):
                with pytest.raises(PathUnusable):
                    await made.ending.end(over.key, Origin.SYNTHESISED)
        assert made.plugin.released == [(DEVICE,)]
        await made.ending.end(over.key, Origin.SYNTHESISED)
        assert made.ledger.uses() == []
        assert made.plugin.released == [(DEVICE,)]


async def test_stop_that_cannot_be_written_down_is_told_once(tmp_path: Path) -> None:
    """A container that began meanwhile would take its place, and its own end count as told."""
    async with bench(tmp_path) as made:
        made.give(FIRST)
        with full_after(0), pytest.raises(PathUnusable):
            await made.ending.stop(made.ledger.uses()[0], [FIRST])
        await made.ending.stop(made.ledger.uses()[0], [FIRST])
        assert len(made.plugin.stopped) == 1
        assert made.ledger.uses()[0].started == frozenset()


async def test_start_is_handed_on_to_who_has_the_unit_now_once_there_is_room(tmp_path: Path) -> None:
    """Of an overtaken use it is not known before whose container has ended."""
    async with bench(tmp_path) as made:
        over = made.give(FIRST)
        made.ledger.overtake(over.key, [FIRST])
        going_on = made.ledger.begin({FIRST: DEVICE}, "life")
        made.ledger.answered(going_on.key)
        made.ledger.end(over.key, Origin.SYNTHESISED)
        with full_after(0), pytest.raises(PathUnusable):
            await made.ending.end(over.key, Origin.SYNTHESISED)
        await made.ending.end(over.key, Origin.SYNTHESISED)
        left = made.ledger.uses()
        assert [(use.key, use.started) for use in left] == [(going_on.key, frozenset([FIRST]))]
        assert made.plugin.stopped == []


async def test_device_left_to_another_share_is_released_though_that_was_not_written_down(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        first, second = made.give(FIRST), made.give(SECOND)
        made.ledger.end(first.key, Origin.SYNTHESISED)
        with full_after(0), pytest.raises(PathUnusable):
            await made.ending.end(first.key, Origin.SYNTHESISED)
        await made.ending.end(second.key, Origin.SYNTHESISED)
        await made.ending.end(first.key, Origin.SYNTHESISED)
        assert made.plugin.released == [(DEVICE,)]
        assert made.ledger.uses() == []
