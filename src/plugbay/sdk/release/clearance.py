"""What has to be over before devices are given again: whoever had them is gone, and they are released.

A kubelet asks for a device that is in use for one of two reasons: an app container takes over from an init container of
its pod, or the pod that had it is gone, which nobody has told. Its checkpoint says which (spec 4.3, 4.10).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Final

from plugbay.errors import CheckpointUnread, DevicesNotReleased
from plugbay.model.assignments import AssignmentKey, Origin
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.sdk.release.book import OTHER_RELEASES, Book
from plugbay.sdk.release.ends import Ends
from plugbay.sdk.release.settings import ReleasePolicy
from plugbay.sdk.release.uses import GRACE_S, NO_POD, Finding, Phase, Reading, Use, after, doubt, find, is_being_stopped

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 50.0
"""A kubelet waits for an Allocate without limit, and lets no other pod in meanwhile; our manager waits 60 s."""
MOST_READINGS: Final = 4


class Clearance:
    """Clears the devices of one resource.

    Args:
        policy: what to do about devices of which nobody can tell.
        allocating: the uses whose Allocate this process is answering, as of any moment.
        read: has the kubelet write its checkpoint, and reads it.
        until_stopped: waits for pods that the kubelet gave up before it stopped them, so many seconds at most.
        cleans: whether there is anything to release; else a use goes on, in whoever's hands.
        looks: whether the checkpoint is asked about uses that may be over.
        has_calls: whether the kubelet of now tells by calls when uses are over, as far as is known.
    """

    def __init__(
        self,
        resource: ResourceName,
        book: Book,
        ends: Ends,
        *,
        policy: ReleasePolicy,
        cleans: bool,
        looks: bool,
        has_calls: Callable[[], bool],
        allocating: Collection[AssignmentKey],
        read: Callable[[Collection[Use]], Awaitable[Reading]],
        until_stopped: Callable[[Collection[Use], float], Awaitable[None]],
    ) -> None:
        self._resource = resource
        self._book = book
        self._ends = ends
        self._policy = policy
        self._cleans = cleans
        self._looks = looks
        self._has_calls = has_calls
        self._allocating = allocating
        self._read = read
        self._until_stopped = until_stopped
        self._stops_by: dict[AssignmentKey, float] = {}  # what was waited for, and until when at most

    async def clear(self, units: Mapping[DeviceId, DeviceId]) -> Mapping[DeviceId, DeviceId]:
        """See that each use of ``units`` goes on, is released, or is allowed to be neither.

        Args:
            units: as the kubelet names them, each with the device behind it.

        Returns:
            Those that are in no use which goes on in the hands of its pod.

        Raises:
            DevicesNotReleased: they are not, or that is not known, and the plugin insists on it.
            PathUnusable: nothing can be kept, and the plugin insists.
        """
        stale = [*self._book.of_units(units), *self._book.overtaken(units)]
        if stale:
            await self._clear(stale, units)
        if self._policy is ReleasePolicy.STRICT:
            await self._clear_shares(units)
        await self._wait_for_releases(units)
        if not stale:
            return units
        going_on = {unit for use in self._book.of_units(units) if use.phase is Phase.OPEN for unit in use.units}
        return {unit: device for unit, device in units.items() if unit not in going_on}

    async def _clear(self, stale: list[Use], units: Collection[DeviceId]) -> None:
        for use in stale:
            if use.phase is not Phase.OPEN:  # over, or an Allocate that nobody answers any more
                self._end(use, units)
        is_open = [use for use in (self._book.get(use.key) for use in stale) if use and use.phase is Phase.OPEN]
        if not self._cleans:
            for use in filter(lambda use: not use.is_overtaken, is_open):
                with self._book.keeping():
                    self._book.change(replace(use, pod=NO_POD, owners=()))
        elif self._looks:
            await self._look(is_open, units)
        elif not self._has_calls():  # one that does would have told
            for use in filter(lambda use: not use.is_overtaken, is_open):
                self._cannot_clear(
                    use, units, "the kubelet does not report ends of pods, and its checkpoint is not to be read"
                )

    async def _look(self, uses: list[Use], units: Collection[DeviceId]) -> None:
        """Have the checkpoint decide about open ``uses``."""
        if not uses:
            return
        try:
            findings, reading = await self._past_stops(uses, units)
        except CheckpointUnread as error:
            for use in uses:
                self._cannot_tell(use, units, str(error))
            return
        for use in filter(None, [self._book.get(use.key) for use in uses]):  # others may have released it meanwhile
            match findings[use.key]:
                case Finding.LISTED:
                    logger.debug("%s: %s go on in their pod", self._resource, ", ".join(use.units))
                case Finding.ABSENT:
                    self._end(use, units)
                case Finding.UNPROVEN:
                    self._cannot_tell(use, units, doubt(use, reading))
                case Finding.CONTRADICTORY:
                    self._cannot_tell(use, units, "the kubelet's checkpoint lists some of the devices given together")

    async def _clear_shares(self, units: Mapping[DeviceId, DeviceId]) -> None:
        """As `_clear`, for who has, or had, the devices behind ``units`` through other replicas.

        Of these nothing says that the kubelet has stored them, as its asking does of ``units``: an admission at the
        creation of a container runs beside others (spec 4.8). So a young one that is not listed is waited for.
        """
        loop = asyncio.get_running_loop()
        while sharing := self._sharing(units):
            if given_up := [use for use in sharing if use.phase is Phase.ALLOCATING]:
                for use in given_up:
                    self._end(use, units)
                continue
            try:
                findings, reading = await self._past_stops(sharing)
            except CheckpointUnread as error:
                raise DevicesNotReleased(list(units), self._resource, str(error)) from error
            young_s = 0.0
            for use in filter(None, [self._book.get(use.key) for use in sharing]):
                match findings[use.key]:
                    case Finding.ABSENT if not use.seen_in and loop.time() - use.since < GRACE_S:
                        young_s = max(young_s, use.since + GRACE_S - loop.time())
                    case Finding.ABSENT:
                        self._end(use, units)
                    case Finding.UNPROVEN:
                        self._cannot_clear(use, units, doubt(use, reading))
            if not young_s:
                return
            await asyncio.sleep(young_s)

    def _sharing(self, units: Mapping[DeviceId, DeviceId]) -> list[Use]:
        """Uses of the same devices through other replicas, but those that are just being given."""
        return [
            use
            for use in self._book.sharing(frozenset(units.values()), Phase.ALLOCATING, Phase.OPEN)
            if use.units.keys().isdisjoint(units) and use.key not in self._allocating
        ]

    def _end(self, use: Use, units: Collection[DeviceId]) -> None:
        """It is over; `_wait_for_releases` has it released."""
        if self._book.is_ours:
            with self._book.keeping():
                self._book.end(use.key, Origin.SYNTHESISED, seen=use.phase)
        else:
            self._cannot_clear(use, units, OTHER_RELEASES)

    async def _wait_for_releases(self, units: Mapping[DeviceId, DeviceId]) -> None:
        """Until none runs of the devices behind ``units``, those of other replicas included; each is tried once."""
        devices = frozenset(units.values())
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        tried: set[AssignmentKey] = set()
        while over := [
            use
            for use in self._book.sharing(devices, Phase.RELEASING)
            if use.key not in tried or self._ends.is_ending(use.key)  # tried again by a look meanwhile
        ]:
            tried.add(over[0].key)
            await self._release(over[0], units, deadline)

    async def _release(self, use: Use, units: Collection[DeviceId], deadline: float) -> None:
        if not self._book.is_ours:
            self._cannot_clear(use, units, OTHER_RELEASES)
            return
        try:
            async with asyncio.timeout_at(deadline) as patience:
                await self._ends.end(use.key, Origin.SYNTHESISED)
        except Exception as error:  # an author's code may raise anything, a TimeoutError as well
            if patience.expired():
                problem = f"release() takes longer than {PATIENCE_S:g} s; it goes on"
                raise DevicesNotReleased(_wanted(use, units), self._resource, problem) from None
            self._cannot_clear(use, units, f"release() failed: {error}")

    async def _past_stops(
        self, uses: list[Use], wanted: Collection[DeviceId] | None = None
    ) -> tuple[Mapping[AssignmentKey, Finding], Reading]:
        """`_findings`; if the plugin insists on clean devices, those once pods that are being stopped have ended."""
        findings, reading = await self._findings(uses, wanted)
        stopping = [use for use in uses if findings[use.key] is Finding.UNPROVEN and is_being_stopped(use, reading)]
        if not stopping or self._policy is not ReleasePolicy.STRICT:
            return findings, reading
        units = ", ".join(unit for use in stopping for unit in use.units)
        logger.info("%s: a pod waits for %s: the previous pod with them is still being stopped", self._resource, units)
        now = asyncio.get_running_loop().time()
        known = {key: by for key, by in self._stops_by.items() if self._book.get(key) is not None}
        # Once for each use: or a pod that takes an hour would hold the kubelet up with each one refused and made anew.
        self._stops_by = {use.key: now + PATIENCE_S for use in stopping} | known
        await self._until_stopped(stopping, min(self._stops_by[use.key] for use in stopping) - now)
        return await self._findings(uses, wanted)

    async def _findings(
        self, uses: list[Use], wanted: Collection[DeviceId] | None = None
    ) -> tuple[Mapping[AssignmentKey, Finding], Reading]:
        """What the checkpoint says of ``uses``. It takes two readings that agree, as one of them may be older than it
        looks (spec 7.1). One is enough to show that a use is over which an earlier one has listed, and which has lasted
        so long that nobody is late with what was before it.

        Raises:
            CheckpointUnread: nothing that can be relied on.
        """
        before: Mapping[AssignmentKey, Finding] = {}
        for _ in range(MOST_READINGS):
            reading = await self._read(uses)
            findings = {use.key: find(use, reading, wanted) for use in uses}
            for use in uses:
                now = self._book.get(use.key)  # its containers may have started meanwhile
                if findings[use.key] is Finding.LISTED and now is not None:
                    with self._book.keeping():
                        self._book.change(after(now, reading))
            if all(
                before.get(use.key) is findings[use.key]
                or (findings[use.key] is Finding.ABSENT and use.seen_in and reading.at - use.since >= GRACE_S)
                for use in uses
            ):
                return findings, reading
            before = findings
        raise CheckpointUnread(f"{MOST_READINGS} readings of it disagree")

    def _cannot_tell(self, use: Use, units: Collection[DeviceId], problem: str) -> None:
        """Checkpoints do not say whether ``use`` goes on. A kubelet that calls Deallocate would have told its end."""
        if self._policy is ReleasePolicy.STRICT or not self._has_calls():
            self._cannot_clear(use, units, problem)

    def _cannot_clear(self, use: Use, units: Collection[DeviceId], problem: str) -> None:
        wanted = _wanted(use, units)
        if self._policy is ReleasePolicy.STRICT:
            raise DevicesNotReleased(wanted, self._resource, problem)
        with self._book.keeping():
            # Without readings only a kubelet's Deallocate ends anything, and then all there is of the devices.
            give_up = self._book.overtake if self._looks else self._book.lose
            if not give_up(use.key, units):
                raise DevicesNotReleased(wanted, self._resource, OTHER_RELEASES)
        logger.warning("%s: %s given without being released: %s", self._resource, ", ".join(wanted), problem)


def _wanted(use: Use, units: Collection[DeviceId]) -> list[DeviceId]:
    """Which of ``units`` cannot be given because of ``use``; if none is part of it, it has them by other replicas."""
    return [unit for unit in use.units if unit in units] or list(units)
