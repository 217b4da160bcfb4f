"""How a use ends: the author's hooks, in order, and what is known of it afterwards.

Whoever finds that a use is over comes here: a look at the checkpoint, an Allocate, or a kubelet that calls.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import Final

from plugbay.errors import CannotRelease, PathUnusable
from plugbay.model.assignments import Assignment, AssignmentKey, Origin
from plugbay.model.ids import DeviceId
from plugbay.model.releases import OperationId
from plugbay.sdk.calls import call
from plugbay.sdk.hooks import HookReports
from plugbay.sdk.plugin import DevicePlugin, offers, resource_of
from plugbay.sdk.release.book import Book
from plugbay.sdk.release.hooks import ReleaseHooks, assignment_of
from plugbay.sdk.release.uses import Phase, Use
from plugbay.sdk.turns import Turns

logger = logging.getLogger(__name__)

_AGAIN: Final = "; it is called again later"


class Ends:
    """
    Args:
        hooks: calls the author's hooks, one at a time for each use.
        starting: the starts of containers that are being prepared.

    Attributes:
        failures: why releases failed, by the use.
        counts: how many releases there were, by outcome; ``given_up`` will never work.
    """

    def __init__(
        self,
        plugin: DevicePlugin,
        book: Book,
        hooks: ReleaseHooks,
        starting: Turns | None = None,
    ) -> None:
        self.failures: dict[AssignmentKey, str] = {}
        self.counts = Counter({"ok": 0, "failed": 0, "given_up": 0})
        self._plugin = plugin
        self._resource = resource_of(plugin)
        self._book = book
        self._hooks = hooks
        self._starting = Turns() if starting is None else starting
        self._reports = HookReports(self._resource)
        self._mode = None if plugin.modes is None else plugin.modes.mode(plugin.resource_name)
        self._stops = Turns()
        self._released: set[DeviceId] = set()
        self._owed: frozenset[DeviceId] = frozenset()  # what a release has left to who had another share
        self._cleaning: dict[AssignmentKey, frozenset[DeviceId]] = {}  # of running releases: what each gives back
        self._unwritten: set[AssignmentKey] = set()  # uses that are released, or given up, and still in the book

    def given(self, units: Collection[DeviceId]) -> None:
        """``units`` are in use again."""
        self._released.difference_update(units)

    def owes(self, use: Use) -> bool:
        """Whether a release left a device of ``use`` to it that now is nobody else's."""
        return bool(self._owed & self._nobody_elses(use))

    def is_ending(self, key: AssignmentKey) -> bool:
        """Whether its release runs."""
        return key in self._cleaning

    async def end(self, key: AssignmentKey, origin: Origin) -> None:
        """Have the use released, which is over; returns when it is, and whoever asks meanwhile waits too.

        Raises:
            Exception: what the author's hook raised; it is not released.
            PathUnusable: it cannot be written down; then a repeat does no more than that.
        """
        over = self._book.end(key, origin)
        if over is None:
            return
        try:
            await self._hooks.once(OperationId(f"release {key}"), self._release, over.assignment())
            if (released := self._book.get(key)) is not None:  # the disk was full, say, when that was to be written
                self._forget(released)
        except Exception as error:
            if self._book.get(key) is None:  # for good: it will never work
                logger.warning("%s: %s is not released: %s", self._resource, ", ".join(over.units), error)
                if origin is Origin.KUBELET:
                    raise
                return
            self.failures[key] = str(error)
            raise

    async def _release(self, assignment: Assignment) -> None:
        await self._starting.until_free(assignment.units)  # its kubelet has given up such a call, and a hook may run on
        use = self._book.get(assignment.key)
        if use is None:
            return
        devices = self._cleaning[use.key] = self._nobody_elses(use)
        try:
            if (stopped := use.started - self.still_used(use)) and offers(self._plugin, "post_stop"):
                await self._tell_stop(use, stopped)
                with self._book.keeping():  # else a repeat of all this tells of the same stop
                    self._stopped(use.key, stopped)
            if offers(self._plugin, "release") and (mine := _part_of(assignment, use, devices)):
                await self._call_release(mine)
            self._owed = self._owed.union(use.units.values()) - devices
        except CannotRelease:
            self.counts["given_up"] += 1
            self._close(use)
            raise
        except BaseException:
            self.counts["failed"] += 1
            del self._cleaning[use.key]
            raise
        self.counts["ok"] += 1
        self._close(use)
        if not devices:
            logger.info("others have the same devices, so nothing is released: %s", assignment)
            return
        logger.info("released %s: %s", assignment, "the kubelet says so" if use.origin is Origin.KUBELET else "gone")

    def _nobody_elses(self, use: Use) -> frozenset[DeviceId]:
        """The devices that are not another use's as well, through their replicas; the last of these gives them back."""
        mine = frozenset(use.units.values())
        is_over = {use.key, *self._unwritten}
        others = [other for other in self._book.sharing(mine, *Phase) if other.key not in is_over]
        return mine.difference(*(self._cleaning.get(other.key, other.units.values()) for other in others))

    def _close(self, use: Use) -> None:
        del self._cleaning[use.key]
        self._unwritten.add(use.key)
        free = use.units.keys() - self.still_used(use)
        self._released.update(free)
        if self._mode is not None:
            self._mode.release(free)
        with suppress(PathUnusable):  # `end` tries once more, and tells
            self._forget(use)

    def still_used(self, use: Use) -> set[DeviceId]:
        """The units that others have or may have as well: it was overtaken, or has overtaken them."""
        return {unit for other in self.others_of(use, use.units) for unit in other.units}

    def others_of(self, use: Use, units: Collection[DeviceId]) -> list[Use]:
        """The uses beside ``use`` that have, or had, some of its ``units`` and are not known to be over."""
        others = [other for other in self._book.uses() if other.key != use.key and other.phase is not Phase.RELEASING]
        return [other for other in others if not other.units.keys().isdisjoint(units)]

    def _hand_on_starts(self, use: Use) -> None:
        """Containers whose ends could not be told while others had their units: with those it will be."""
        started = use.started if (now := self._book.get(use.key)) is None else now.started
        for other in self.others_of(use, use.units):
            self._book.change(replace(other, started=other.started | (started & other.units.keys())))

    def _forget(self, use: Use) -> None:
        self._hand_on_starts(use)
        self._book.close_use(use.key)
        self._unwritten.discard(use.key)
        self.failures.pop(use.key, None)

    async def stop(self, use: Use, units: Collection[DeviceId]) -> None:
        """A container that had ``units`` has ended, and no kubelet has told.

        Raises:
            Exception: what the author's hook raised.
            PathUnusable: that cannot be written down; a container that began now would take this one's place.
        """
        await self._stops.until_free(units)  # a kubelet may have told and given up, or asked for this start before
        now = self._book.get(use.key)
        if now is not None and (before := now.started.intersection(units)):
            await self._tell_stop(now, before)
            self._stopped(now.key, before)

    async def _tell_stop(self, use: Use, units: Collection[DeviceId]) -> None:
        stop = use.stop_of(units, Origin.SYNTHESISED)
        operation = OperationId(f"stop {stop.key} {','.join(stop.units)}")
        await self._hooks.once(operation, self._post_stop_if_it_can, stop)

    async def _post_stop_if_it_can(self, stop: Assignment) -> None:
        with suppress(CannotRelease):
            await self._post_stop(stop)

    async def _post_stop(self, stop: Assignment) -> None:
        """The hook, one at a time for each unit: who asked for the one before may not have waited for its end."""
        await self._stops.until_free(stop.units)
        try:
            with self._stops.taking(stop.units), self._reports.about("post_stop", stop.device_ids, then=_AGAIN):
                await call(self._plugin.post_stop, stop)
        except CannotRelease as error:
            logger.warning("%s: post_stop() of %s: %s", self._resource, ", ".join(stop.units), error)
            raise

    async def _call_release(self, assignment: Assignment) -> None:
        with self._reports.about("release", assignment.device_ids, then=_AGAIN):
            await call(self._plugin.release, assignment)

    def _stopped(self, key: AssignmentKey, units: Collection[DeviceId]) -> None:
        if (now := self._book.get(key)) is not None and now.started:
            self._book.change(replace(now, started=now.started.difference(units), stops=now.stops + 1))

    # --- calls of a kubelet that knows them -------------------------------------------------------------------------

    async def post_stopped(self, units: Collection[DeviceId], operation: OperationId) -> None:
        """The kubelet called PostStopContainer."""
        from uuid import uuid4  # imported here: most plugins never get here, and it takes memory

        uses = self._book.of_units(units)
        if len(uses) == 1 and uses[0].units.keys() >= set(units):
            assignment = replace(uses[0].stop_of(units, Origin.KUBELET), key=AssignmentKey(operation or uuid4().hex))
        else:
            assignment = self._unknown(units, operation)

        async def post_stop(stop: Assignment) -> None:
            await self._post_stop(stop)
            for use in uses:  # here, as the kubelet may have given the call up
                with self._book.keeping():
                    self._stopped(use.key, units)

        await self._hooks.once(operation, post_stop, assignment)

    async def deallocated(self, units: Collection[DeviceId], operation: OperationId) -> None:
        """The kubelet called Deallocate: what is in use of ``units`` is over."""
        uses = self._book.of_units(units)
        for use in uses:
            is_part = not use.units.keys() <= set(units) and use.phase is not Phase.RELEASING
            over = self._book.split(use, units) if is_part else use
            await self.end(over.key, Origin.KUBELET)
        known = {unit for use in [*uses, *self._book.overtaken(units)] for unit in use.units}
        unknown = [unit for unit in dict.fromkeys(units) if unit not in known and unit not in self._released]
        if unknown and offers(self._plugin, "release"):  # given before there was a journal, or before it was lost
            await self._hooks.once(operation, self._call_release, self._unknown(unknown, operation))
        if self._mode is not None:
            self._mode.release(set(units).difference(*(use.units for use in self._book.overtaken(units))))

    def _unknown(self, units: Collection[DeviceId], operation: OperationId) -> Assignment:
        behind = {unit: device for use in self._book.of_units(units) for unit, device in use.units.items()}
        made = assignment_of(
            operation, self._resource, devices=[behind.get(unit, unit) for unit in units], units=list(units)
        )
        return replace(made, origin=Origin.KUBELET)


def _part_of(assignment: Assignment, use: Use, devices: Collection[DeviceId]) -> Assignment | None:
    """What ``assignment`` says of ``devices``; None if these are none."""
    units = tuple(unit for unit, device in use.units.items() if device in devices)
    left = tuple(device for device in assignment.device_ids if device in devices)
    return replace(assignment, device_ids=left, units=units) if left else None
