"""Looks for uses that are over while no kubelet asks, as long as there are any; without them it sleeps.

It asks a kubelet for its pods, so that the kubelet drops the assignments of those that have ended, has it write its
checkpoint, and reads that: `uses` tells what it proves. A reading does not count if an Allocate of ours may have
changed something meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from plugbay.errors import CheckpointUnread, HookFailed, PathUnusable
from plugbay.model.assignments import AssignmentKey, Origin
from plugbay.ops.backoff import RETRIES, Backoff
from plugbay.ops.tasks import first
from plugbay.sdk.release.context import Context
from plugbay.sdk.release.ending import Ends
from plugbay.sdk.release.evidence.owners import with_owners
from plugbay.sdk.release.evidence.pod_lists import STORED_S
from plugbay.sdk.release.uses import GRACE_S, Proof, Reading, Use, UsePhase, after, doubt, find, is_over

if TYPE_CHECKING:
    from plugbay.model.podresources import PodResources

logger = logging.getLogger(__name__)

CONFIRM_S: Final = 1.0
"""The time from a reading that had a device absent to the one that makes sure."""
_SOONEST: Final = 0.8
"""Nodes that were started together should not look together: the jitter, downwards, so that no look comes late."""
_ALONG: Final = 0.5
"""The part of the interval after which this resource looks together with another one that asks for the pods."""


class Sweep:
    """Looks for ends of uses of one resource.

    Attributes:
        doubts: why uses that are not listed may go on nevertheless, by the use.
    """

    def __init__(self, context: Context, ending: Ends) -> None:
        self.doubts: dict[AssignmentKey, str] = {}
        self._resource = context.resource
        self._ledger = context.ledger
        self._evidence = context.evidence
        self._quiet = context.shared.quiet
        self._pod_lists = context.shared.pod_lists
        self._next_look = context.next_look
        self._ending = ending
        self._interval_s = context.shared.settings.interval_s
        self._retries: dict[AssignmentKey, tuple[Backoff, float]] = {}
        self._being_ended: set[AssignmentKey] = set()
        self._problem = ""
        self._due_since = float("-inf")  # an earlier list of pods may have missed ends that a look has to find

    async def run(self) -> NoReturn:
        """Look now and then, until cancelled."""
        if not self._ledger.is_ours:
            await self._take_over()
            self._next_look.is_urgent = bool(self._ledger.uses())
        unwritten, backoff = "", Backoff(RETRIES)
        loop = asyncio.get_running_loop()
        looked_at = loop.time()
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._next_look.stirred.clear()
                if not self._has_work():
                    await self._next_look.stirred.wait()
                    looked_at = loop.time()
                    continue
                await self._rest(looked_at)
                looked_at = loop.time()
                self._next_look.is_urgent = False
                try:
                    await self._look(tasks)
                    unwritten = ""
                    backoff.reset()
                except PathUnusable as error:  # a full disk, say: nothing is released that is not written down
                    if str(error) != unwritten:
                        logger.error("%s: no device is released until this can be written: %s", self._resource, error)
                    unwritten = str(error)
                    # A release that is to be tried again may be due all the time.
                    await asyncio.sleep(min(backoff.next_delay_s(), self._interval_s))

    async def _take_over(self) -> None:
        """Wait until the process that releases has ended."""
        from plugbay.sdk.hooks.calls import in_thread

        backoff = Backoff(RETRIES)
        logger.info("%s: another process of this plugin releases its devices, until it ends", self._resource)
        while not self._ledger.is_ours:
            try:
                await in_thread(self._ledger.wait_to_take_over)
                await self._ledger.take_over()
            except PathUnusable as error:
                logger.error("%s: cannot take over the releases, and tries again: %s", self._resource, error)
                await asyncio.sleep(backoff.next_delay_s())
        logger.info("%s: this process releases devices from now on", self._resource)

    def _has_work(self) -> bool:
        uses = self._ledger.uses()
        return any(self._evidence.looks_at(use) or use.phase is not UsePhase.OPEN for use in uses)

    async def _rest(self, looked_at: float) -> None:
        """Wait until it is time to look, or until the kubelet is asked for its pods anyway, once for all resources."""
        loop, lists = asyncio.get_running_loop(), self._pod_lists
        due = looked_at + jittered(self._interval_s)
        self._due_since = looked_at + self._interval_s * _ALONG
        while not self._next_look.is_urgent and lists.asked_at < self._due_since:
            times = [due, *(self._due(use) for use in self._ledger.uses() if use.phase is UsePhase.RELEASING)]
            if (left_s := min(times) - loop.time()) <= 0:
                break
            await first(self._next_look.stirred.wait(), lists.renewed.wait(), timeout_s=left_s)
            self._next_look.stirred.clear()
        if lists.asked_at < self._due_since:
            self._due_since = loop.time()

    # --- one look ---------------------------------------------------------------------------------------------------

    async def _look(self, tasks: asyncio.TaskGroup) -> None:
        await self._quiet.until_quiet()
        if any(use.phase is UsePhase.OPEN and self._evidence.looks_at(use) for use in self._ledger.uses()):
            await self._read_until_clear()
        now = asyncio.get_running_loop().time()
        for use in self._ledger.uses():
            over = None
            if self._is_to_end(use, now):
                with self._ledger.keeping():  # at once: no Allocate comes in between
                    over = self._ledger.end(use.key, Origin.SYNTHESISED, seen=use.phase)
            if over is not None:
                self._being_ended.add(over.key)
                tasks.create_task(self._end(over), name=f"release {over.key}")  # it may take long
        await self._ledger.compact()

    async def _read_until_clear(self) -> None:
        life = self._ledger.life
        # An earlier kubelet's pods say nothing of this one's.
        asked_since = self._due_since if life is None else max(self._due_since, life.since)
        pods = await self._pod_lists.pods(asked_since=asked_since)
        if self._pod_lists.asked_at < asked_since:  # an Allocate has come first, or is not stored yet
            await asyncio.sleep(STORED_S)
            self._next_look.make_urgent()
            return
        if await self._read(pods) and any(use.absences == 1 for use in self._ledger.uses()):
            await asyncio.sleep(min(CONFIRM_S, self._interval_s / 4))
            await self._quiet.until_quiet()
            await self._read(pods)

    async def _read(self, pods: Sequence[PodResources]) -> bool:
        """Take in one reading; returns whether there was one that counts."""
        allocations = self._quiet.begun
        uses = [use for use in self._ledger.uses() if use.phase is UsePhase.OPEN]
        try:
            reading = await self._evidence.read(uses)
        except CheckpointUnread as error:
            if error.problem != self._problem:
                logger.warning("%s: no device is released for now: %s", self._resource, error)
            self._problem = error.problem
            return False
        self._problem = ""
        if self._quiet.begun != allocations or not self._quiet.is_quiet:
            self._next_look.make_urgent()
            return False
        for use in self._ledger.uses():  # as they are by now
            if use.phase is UsePhase.OPEN and use.since < reading.at:
                self._learn(use, reading, pods)
        logger.debug("%s: looked at the checkpoint, %d uses are open", self._resource, len(uses))
        return True

    def _learn(self, use: Use, reading: Reading, pods: Sequence[PodResources]) -> None:
        learned = after(use, reading)
        self.doubts.pop(use.key, None)
        match find(use, reading):
            case Proof.LISTED if use.is_overtaken:
                self.doubts[use.key] = "its pod to end; others were given its devices"
            case Proof.LISTED | Proof.CONTRADICTORY:
                learned = with_owners(learned, pods, as_of=self._pod_lists.asked_at)
            case Proof.UNPROVEN:
                self.doubts[use.key] = doubt(use, reading)
        with self._ledger.keeping():
            self._ledger.change(learned)

    # --- ends -------------------------------------------------------------------------------------------------------

    def _is_to_end(self, use: Use, now: float) -> bool:
        if use.key in self._being_ended:
            return False
        match use.phase:
            case UsePhase.RELEASING:
                return self._due(use) <= now
            case UsePhase.ALLOCATING:
                return use.key not in self._ledger.allocating and now - use.since >= GRACE_S
            case UsePhase.OPEN:
                return self._evidence.looks_at(use) and is_over(use)

    async def _end(self, use: Use) -> None:
        backoff = self._retries.pop(use.key, (Backoff(RETRIES), 0.0))[0]
        try:
            await self._ending.end(use.key, Origin.SYNTHESISED)
        except Exception as error:  # an author's code may raise anything
            self._retries[use.key] = backoff, asyncio.get_running_loop().time() + backoff.next_delay_s()
            if not isinstance(error, HookFailed):  # the log tells of it already
                logger.error(
                    "%s: the release of %s failed and is tried again: %s",
                    self._resource,
                    ", ".join(use.units),
                    str(error) or type(error).__name__,
                )
        finally:
            self._being_ended.discard(use.key)
            self._next_look.stirred.set()

    def _due(self, use: Use) -> float:
        """The time to try a release: at once if it was not tried yet, never while it runs."""
        if use.key in self._being_ended:
            return float("inf")
        return self._retries[use.key][1] if use.key in self._retries else 0.0


def jittered(interval_s: float) -> float:
    """The interval of this time, with jitter."""
    from random import uniform  # imported here: most plugins never get here, and it takes memory

    return interval_s * uniform(_SOONEST, 1.0)
