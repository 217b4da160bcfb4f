"""Looks for uses that are over while nobody asks, as long as there are any; without them it sleeps.

It asks a kubelet for its pods, so that it drops the assignments of those that have ended, has it write its checkpoint,
and reads that: `uses` tells what it proves. What an Allocate of ours may have changed meanwhile does not count.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from plugbay.errors import CheckpointUnread, HookFailed, PathUnusable
from plugbay.model.assignments import AssignmentKey, Origin
from plugbay.sdk.backoff import Backoff
from plugbay.sdk.release.owners import with_owners
from plugbay.sdk.release.quiet import STORED_S
from plugbay.sdk.release.uses import GRACE_S, Finding, Phase, Reading, Use, after, doubt, find, is_over
from plugbay.sdk.waiting import wait_first

if TYPE_CHECKING:
    from plugbay.model.podresources import PodResources
    from plugbay.sdk.release.custody import Custody

logger = logging.getLogger(__name__)

CONFIRM_S: Final = 1.0
"""From a reading that had a device absent to the one that makes sure."""
_SOONEST: Final = 0.8
"""Nodes that were started together should not look together: the jitter, downwards, so that no look comes late."""
_ALONG: Final = 0.5
"""After so much of the interval a look of another resource, which asks for the pods, is the moment for this one's."""


class Sweep:
    """The looks for one resource; `run` them."""

    def __init__(self, custody: Custody) -> None:
        self._custody = custody
        self._interval_s = custody.shared.settings.interval_s
        self._retries: dict[AssignmentKey, tuple[Backoff, float]] = {}
        self._ending: set[AssignmentKey] = set()
        self._problem = ""
        self._due_since = float("-inf")  # a list of pods from before may have missed ends that a look has to find

    async def run(self) -> NoReturn:
        """Look now and then, until cancelled."""
        custody = self._custody
        if not custody.book.is_ours:
            await self._take_over()
            custody.is_urgent = bool(custody.book.uses())
        unwritten, backoff = "", Backoff()
        loop = asyncio.get_running_loop()
        looked_at = loop.time()
        async with asyncio.TaskGroup() as tasks:
            while True:
                custody.stirred.clear()
                if not self._has_work():
                    await custody.stirred.wait()
                    looked_at = loop.time()
                    continue
                await self._rest(looked_at)
                looked_at = loop.time()
                custody.is_urgent = False
                try:
                    await self._look(tasks)
                    unwritten = ""
                    backoff.reset()
                except PathUnusable as error:  # a full disk, say: nothing is released that is not written down
                    if str(error) != unwritten:
                        logger.error("%s: no device is released until this can be written: %s", custody.resource, error)
                    unwritten = str(error)
                    # A release that is to be tried again may be due all the time.
                    await asyncio.sleep(min(backoff.next_delay_s(), self._interval_s))

    async def _take_over(self) -> None:
        """Wait until the process that releases has ended."""
        from plugbay.sdk.calls import in_thread

        custody, backoff = self._custody, Backoff()
        logger.info("%s: another process of this plugin releases its devices, until it ends", custody.resource)
        while not custody.book.is_ours:
            try:
                await in_thread(custody.book.wait_to_take_over)
                custody.book.take_over(custody.allocating)
            except PathUnusable as error:
                logger.error("%s: %s", custody.resource, error)
                await asyncio.sleep(backoff.next_delay_s())
        logger.info("%s: this process releases devices from now on", custody.resource)

    def _has_work(self) -> bool:
        uses = self._custody.book.uses()
        return any(self._custody.looks_at(use) or use.phase is not Phase.OPEN for use in uses)

    async def _rest(self, looked_at: float) -> None:
        """Until it is time to look, or the kubelet is asked for its pods anyway: so it is for all resources at once."""
        loop, lists = asyncio.get_running_loop(), self._custody.shared.pod_lists
        due = looked_at + jittered(self._interval_s)
        self._due_since = looked_at + self._interval_s * _ALONG
        while not self._custody.is_urgent and lists.asked_at < self._due_since:
            times = [due, *(self._due(use) for use in self._custody.book.uses() if use.phase is Phase.RELEASING)]
            if (left_s := min(times) - loop.time()) <= 0:
                break
            await wait_first(self._custody.stirred.wait, lists.renewed.wait, timeout_s=left_s)
            self._custody.stirred.clear()
        if lists.asked_at < self._due_since:
            self._due_since = loop.time()

    # --- one look ---------------------------------------------------------------------------------------------------

    async def _look(self, tasks: asyncio.TaskGroup) -> None:
        custody = self._custody
        await custody.shared.quiet.until_quiet()
        if any(use.phase is Phase.OPEN and custody.looks_at(use) for use in custody.book.uses()):
            await self._read_until_clear()
        now = asyncio.get_running_loop().time()
        for use in custody.book.uses():
            over = None
            if self._is_to_end(use, now):
                with custody.book.keeping():  # at once: no Allocate comes in between
                    over = custody.book.end(use.key, Origin.SYNTHESISED, seen=use.phase)
            if over is not None:
                self._ending.add(over.key)
                tasks.create_task(self._end(over), name=f"release {over.key}")  # it may take long
        await custody.book.compact()

    async def _read_until_clear(self) -> None:
        lists, life = self._custody.shared.pod_lists, self._custody.book.life
        # An earlier kubelet's pods say nothing of this one's.
        asked_since = self._due_since if life is None else max(self._due_since, life.since)
        pods = await lists.pods(asked_since=asked_since)
        if lists.asked_at < asked_since:  # an Allocate has come first, or is not stored yet
            await asyncio.sleep(STORED_S)
            self._custody.look_soon()
            return
        if await self._read(pods) and any(use.absences == 1 for use in self._custody.book.uses()):
            await asyncio.sleep(min(CONFIRM_S, self._interval_s / 4))
            await self._custody.shared.quiet.until_quiet()
            await self._read(pods)

    async def _read(self, pods: Sequence[PodResources]) -> bool:
        """Take in one reading; whether there was one."""
        custody = self._custody
        allocations = custody.shared.quiet.begun
        uses = [use for use in custody.book.uses() if use.phase is Phase.OPEN]
        try:
            reading = await custody.read(uses)
        except CheckpointUnread as error:
            if error.problem != self._problem:
                logger.warning("%s: no device is released for now: %s", custody.resource, error)
            self._problem = error.problem
            return False
        self._problem = ""
        if custody.shared.quiet.begun != allocations or not custody.shared.quiet.is_quiet:
            custody.look_soon()
            return False
        for use in custody.book.uses():  # as they are by now
            if use.phase is Phase.OPEN and use.since < reading.at:
                self._learn(use, reading, pods)
        logger.debug("%s: looked at the checkpoint, %d uses are open", custody.resource, len(uses))
        return True

    def _learn(self, use: Use, reading: Reading, pods: Sequence[PodResources]) -> None:
        custody = self._custody
        learned = after(use, reading)
        custody.doubts.pop(use.key, None)
        match find(use, reading):
            case Finding.LISTED if use.is_overtaken:
                custody.doubts[use.key] = "its pod to end; others were given its devices"
            case Finding.LISTED | Finding.CONTRADICTORY:
                learned = with_owners(learned, pods, as_of=custody.shared.pod_lists.asked_at)
            case Finding.UNPROVEN:
                custody.doubts[use.key] = doubt(use, reading)
        with custody.book.keeping():
            custody.book.change(learned)

    # --- ends -------------------------------------------------------------------------------------------------------

    def _is_to_end(self, use: Use, now: float) -> bool:
        if use.key in self._ending:
            return False
        match use.phase:
            case Phase.RELEASING:
                return self._due(use) <= now
            case Phase.ALLOCATING:
                return use.key not in self._custody.allocating and now - use.since >= GRACE_S
            case Phase.OPEN:
                return self._custody.looks_at(use) and is_over(use)

    async def _end(self, use: Use) -> None:
        backoff = self._retries.pop(use.key, (Backoff(), 0.0))[0]
        try:
            await self._custody.ends.end(use.key, Origin.SYNTHESISED)
        except Exception as error:  # an author's code may raise anything
            self._retries[use.key] = backoff, asyncio.get_running_loop().time() + backoff.next_delay_s()
            if not isinstance(error, HookFailed):  # of which the log tells already
                logger.error(
                    "%s: the release of %s failed and is tried again: %s",
                    self._custody.resource,
                    ", ".join(use.units),
                    str(error) or type(error).__name__,
                )
        finally:
            self._ending.discard(use.key)
            self._custody.stirred.set()

    def _due(self, use: Use) -> float:
        """When to try again; at once what nobody has tried, never while it runs."""
        if use.key in self._ending:
            return float("inf")
        return self._retries[use.key][1] if use.key in self._retries else 0.0


def jittered(interval_s: float) -> float:
    """How long to wait this time."""
    return interval_s * random.uniform(_SOONEST, 1.0)
