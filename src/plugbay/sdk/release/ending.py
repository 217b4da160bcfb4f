"""The end of a use: the author's hooks are called in order, and the ledger forgets the use.

All that find a use to be over come here: a look at the checkpoint, an Allocate, and a kubelet that calls.
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
from plugbay.sdk.author.plugin import offers
from plugbay.sdk.hooks.calls import call
from plugbay.sdk.hooks.failures import HookReports
from plugbay.sdk.hooks.turns import Turns
from plugbay.sdk.release.context import Context
from plugbay.sdk.release.hooks import ReleaseHooks, assignment_of
from plugbay.sdk.release.uses import Use, UsePhase

logger = logging.getLogger(__name__)

_AGAIN: Final = "; it is called again later"


class Ends:
    """Ends the uses of one resource.

    Args:
        hooks: calls the author's hooks, one at a time for each use.
        starting: the calls of PreStartContainer that run.

    Attributes:
        failures: why releases failed, by the use.
        counts: how many releases there were, by outcome; those ``given_up`` will never work.
    """

    def __init__(self, context: Context, hooks: ReleaseHooks, starting: Turns) -> None:
        plugin = context.plugin
        self.failures: dict[AssignmentKey, str] = {}
        self.counts = Counter({"ok": 0, "failed": 0, "given_up": 0})
        self._plugin = plugin
        self._resource = context.resource
        self._ledger = context.ledger
        self._hooks = hooks
        self._starting = starting
        self._reports = HookReports(self._resource)
        self._mode = None if plugin.modes is None else plugin.modes.mode(self._resource)
        self._stops = Turns()
        self._released: set[DeviceId] = set()
        self._owed: frozenset[DeviceId] = frozenset()  # what a release has left to the use of another share
        self._cleaning: dict[AssignmentKey, frozenset[DeviceId]] = {}  # what each running release gives back
        self._unwritten: set[AssignmentKey] = set()  # uses that are released, or given up, and still in the ledger

    def given(self, units: Collection[DeviceId]) -> None:
        """Note that ``units`` are in use again."""
        self._released.difference_update(units)

    def owes(self, use: Use) -> bool:
        """Whether a release left a device of ``use`` to it that no other use has now."""
        return bool(self._owed & self._only_its_own(use))

    def is_ending(self, key: AssignmentKey) -> bool:
        """Whether the release of the use runs."""
        return key in self._cleaning

    async def end(self, key: AssignmentKey, origin: Origin) -> None:
        """Release a use that is over; returns when that is done, as do other calls for the same use meanwhile.

        Raises:
            Exception: the author's hook raised this; the use is not released.
            PathUnusable: it cannot be written down; then a repeat does no more than that.
        """
        over = self._ledger.end(key, origin)
        if over is None:
            return
        try:
            await self._hooks.once(OperationId(f"release {key}"), self._release, over.assignment())
            if (released := self._ledger.get(key)) is not None:  # the disk was full, say, when that was to be written
                self._forget(released)
        except Exception as error:
            if self._ledger.get(key) is None:  # for good: it will never work
                logger.warning(
                    "%s: release() of %s has failed for good and is not called again: %s",
                    self._resource,
                    ", ".join(over.units),
                    error,
                )
                if origin is Origin.KUBELET:
                    raise
                return
            self.failures[key] = str(error)
            raise

    async def _release(self, assignment: Assignment) -> None:
        await self._starting.until_free(assignment.units)  # its kubelet has given up such a call, and a hook may run on
        use = self._ledger.get(assignment.key)
        if use is None:
            return
        devices = self._cleaning[use.key] = self._only_its_own(use)
        try:
            if (stopped := use.started - self.still_used(use)) and offers(self._plugin, "post_stop"):
                await self._tell_stop(use, stopped)
                with self._ledger.keeping():  # else a repeat of all this tells of the same stop
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
        logger.info(
            "released %s: %s", assignment, "the kubelet says so" if use.origin is Origin.KUBELET else "its pod is gone"
        )

    def _only_its_own(self, use: Use) -> frozenset[DeviceId]:
        """The devices that no other use has through their replicas; the last of such uses gives them back."""
        mine = frozenset(use.units.values())
        is_over = {use.key, *self._unwritten}
        others = [other for other in self._ledger.sharing(mine, *UsePhase) if other.key not in is_over]
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
        """The units that other uses have or may have: ``use`` was overtaken, or has overtaken them."""
        return {unit for other in self.others_of(use, use.units) for unit in other.units}

    def others_of(self, use: Use, units: Collection[DeviceId]) -> list[Use]:
        """The uses beside ``use`` that have, or had, some of its ``units`` and are not known to be over."""
        others = [
            other for other in self._ledger.uses() if other.key != use.key and other.phase is not UsePhase.RELEASING
        ]
        return [other for other in others if not other.units.keys().isdisjoint(units)]

    def _hand_on_starts(self, use: Use) -> None:
        """Leave starts that could not be told of to the other uses of the same units: their ends tell."""
        started = use.started if (now := self._ledger.get(use.key)) is None else now.started
        for other in self.others_of(use, use.units):
            self._ledger.change(replace(other, started=other.started | (started & other.units.keys())))

    def _forget(self, use: Use) -> None:
        self._hand_on_starts(use)
        self._ledger.close_use(use.key)
        self._unwritten.discard(use.key)
        self.failures.pop(use.key, None)

    async def stop(self, use: Use, units: Collection[DeviceId]) -> None:
        """Tell the plugin that a container that had ``units`` has ended, which no kubelet has told.

        Raises:
            Exception: the author's hook raised this.
            PathUnusable: that cannot be written down; a container that began now would take this one's place.
        """
        await self._stops.until_free(units)  # a kubelet may have told and given up, or asked for this start before
        now = self._ledger.get(use.key)
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
        """Call the hook, one call at a time for each unit: an earlier caller may not have waited for its end."""
        await self._stops.until_free(stop.units)
        try:
            with self._stops.taking(stop.units), self._reports.about("post_stop", stop.device_ids, then=_AGAIN):
                await call(self._plugin.post_stop, stop)
        except CannotRelease as error:
            logger.warning(
                "%s: post_stop() of %s has failed for good and is not called again: %s",
                self._resource,
                ", ".join(stop.units),
                error,
            )
            raise

    async def _call_release(self, assignment: Assignment) -> None:
        with self._reports.about("release", assignment.device_ids, then=_AGAIN):
            await call(self._plugin.release, assignment)

    def _stopped(self, key: AssignmentKey, units: Collection[DeviceId]) -> None:
        if (now := self._ledger.get(key)) is not None and now.started:
            self._ledger.change(replace(now, started=now.started.difference(units), stops=now.stops + 1))

    # --- calls of a kubelet that knows them -------------------------------------------------------------------------

    async def post_stopped(self, units: Collection[DeviceId], operation: OperationId) -> None:
        """The kubelet called PostStopContainer."""
        from uuid import uuid4  # imported here: most plugins never get here, and it takes memory

        uses = self._ledger.of_units(units)
        if len(uses) == 1 and uses[0].units.keys() >= set(units):
            assignment = replace(uses[0].stop_of(units, Origin.KUBELET), key=AssignmentKey(operation or uuid4().hex))
        else:
            assignment = self._unknown(units, operation)

        async def post_stop(stop: Assignment) -> None:
            await self._post_stop(stop)
            for use in uses:  # here, as the kubelet may have given the call up
                with self._ledger.keeping():
                    self._stopped(use.key, units)

        await self._hooks.once(operation, post_stop, assignment)

    async def deallocated(self, units: Collection[DeviceId], operation: OperationId) -> None:
        """The kubelet called Deallocate: the uses of ``units`` are over."""
        uses = self._ledger.of_units(units)
        for use in uses:
            is_part = not use.units.keys() <= set(units) and use.phase is not UsePhase.RELEASING
            over = self._ledger.split(use, units) if is_part else use
            await self.end(over.key, Origin.KUBELET)
        known = {unit for use in [*uses, *self._ledger.overtaken(units)] for unit in use.units}
        unknown = [unit for unit in dict.fromkeys(units) if unit not in known and unit not in self._released]
        if unknown and offers(self._plugin, "release"):  # given before there was a journal, or before it was lost
            await self._hooks.once(operation, self._call_release, self._unknown(unknown, operation))
        if self._mode is not None:
            self._mode.release(set(units).difference(*(use.units for use in self._ledger.overtaken(units))))

    def _unknown(self, units: Collection[DeviceId], operation: OperationId) -> Assignment:
        behind = {unit: device for use in self._ledger.of_units(units) for unit, device in use.units.items()}
        made = assignment_of(
            operation, self._resource, devices=[behind.get(unit, unit) for unit in units], units=list(units)
        )
        return replace(made, origin=Origin.KUBELET)


def _part_of(assignment: Assignment, use: Use, devices: Collection[DeviceId]) -> Assignment | None:
    """The part of ``assignment`` about ``devices``; None if there are none."""
    units = tuple(unit for unit, device in use.units.items() if device in devices)
    left = tuple(device for device in assignment.device_ids if device in devices)
    return replace(assignment, device_ids=left, units=units) if left else None
