"""Giving devices: before an answer to Allocate their earlier uses are over and released, and then a use begins.

A kubelet asks for a device that is in use for one of two reasons: an app container takes over from an init container of
its pod, or the pod that had the device is gone, which nothing has told. Its checkpoint says which (spec 4.3, 4.10).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace
from typing import Final

from plugbay.errors import CheckpointUnread, DevicesNotReleased
from plugbay.model.assignments import AssignmentKey, Origin
from plugbay.model.ids import DeviceId
from plugbay.sdk.hooks.turns import Turns
from plugbay.sdk.release.context import Context
from plugbay.sdk.release.ending import Ends
from plugbay.sdk.release.ledger.ledger import OTHER_RELEASES
from plugbay.sdk.release.uses import (
    GRACE_S,
    NO_POD,
    Proof,
    Reading,
    Use,
    UsePhase,
    after,
    doubt,
    find,
    is_being_stopped,
)

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 50.0
"""A kubelet waits for an Allocate without limit, and lets no other pod in meanwhile; our manager waits 60 s."""
MOST_READINGS: Final = 4


class Giving:
    """Gives the devices of one resource."""

    def __init__(self, context: Context, ending: Ends) -> None:
        self._resource = context.resource
        self._ledger = context.ledger
        self._evidence = context.evidence
        self._quiet = context.shared.quiet
        self._next_look = context.next_look
        self._ending = ending
        self._releases = context.releases
        self._is_strict = context.is_strict
        self._looks = context.is_strict or context.shared.settings.source.reads_checkpoints
        # Unwritten it would not count: a release could come while the device is in use, or post_stop() never.
        self._has_to_keep = context.releases or context.hears_stops
        self._allocates = Turns()
        self._stops_by: dict[AssignmentKey, float] = {}  # the uses that were waited for, and until when at most

    @asynccontextmanager
    async def giving(self, units: Mapping[DeviceId, DeviceId]) -> AsyncIterator[None]:
        """Run the block, an answer to Allocate, once earlier uses of ``units`` are over and released.

        Args:
            units: as the kubelet names them, each with the device behind it.

        Raises:
            DevicesNotReleased: they are not, or that is not known, and the plugin insists on it; or a release is still
                to come, which would not know that they are in use again.
            PathUnusable: it cannot be kept that they are in use, and a release may come.
        """
        with self._quiet.allocating([(self._resource, unit) for unit in units]):
            await self._wait_for_other_calls(units)
            with self._asking_for(units):
                use = self._begin(await self.clear(units))
                try:
                    yield
                except Exception:  # refused, so no kubelet assigns them
                    self._forget(use)
                    raise
                finally:
                    # Cancelled: no kubelet gets an answer, so none assigns them; the hook's work is to be undone.
                    self._ending.given(units)
                    if use is not None:
                        self._ledger.allocating.discard(use.key)
                if use is not None and not self._ledger.answered(use.key):
                    raise DevicesNotReleased([*use.units], self._resource, OTHER_RELEASES)

    async def _wait_for_other_calls(self, units: Collection[DeviceId]) -> None:
        """Wait for other calls about these devices: a kubelet that was restarted in the middle of a call asks again."""
        try:
            await self._allocates.until_free(units, patience_s=PATIENCE_S)
        except TimeoutError:
            problem = f"an earlier allocate() takes longer than {PATIENCE_S:g} s"
            raise DevicesNotReleased(list(units), self._resource, problem) from None

    @contextmanager
    def _asking_for(self, units: Collection[DeviceId]) -> Iterator[None]:
        """Keep other calls for ``units`` waiting while the block runs."""
        try:
            with self._allocates.taking(units):
                yield
        finally:
            self._next_look.stirred.set()  # refused or not: a device is in use, or is to be released

    def _begin(self, fresh: Mapping[DeviceId, DeviceId]) -> Use | None:
        if not fresh:
            return None
        with nullcontext() if self._has_to_keep and self._ledger.is_open else self._ledger.keeping():
            self._evidence.note_life()
            use = self._ledger.begin(fresh, "" if self._ledger.life is None else self._ledger.life.id)
            self._ledger.allocating.add(use.key)
            return use
        # It could not be written down, and a release of these devices is to come.
        if self._ledger.sharing([*fresh.values()], *UsePhase):
            raise DevicesNotReleased([*fresh], self._resource, "their release could come while they are in use again")
        return None

    def _forget(self, use: Use | None) -> None:
        if use is not None:
            with self._ledger.keeping():
                if self._ending.owes(use):
                    self._ledger.end(use.key, Origin.SYNTHESISED)
                else:
                    self._ledger.close_use(use.key)

    # --- what has to be over before -----------------------------------------------------------------------------------

    async def clear(self, units: Mapping[DeviceId, DeviceId]) -> Mapping[DeviceId, DeviceId]:
        """See that each use of ``units`` goes on, is released, or is allowed to be neither.

        Args:
            units: as the kubelet names them, each with the device behind it.

        Returns:
            The units without those whose use goes on in its pod.

        Raises:
            DevicesNotReleased: they are not, or that is not known, and the plugin insists on it.
            PathUnusable: nothing can be kept, and the plugin insists on it.
        """
        stale = [*self._ledger.of_units(units), *self._ledger.overtaken(units)]
        if stale:
            await self._clear(stale, units)
        if self._is_strict:
            await self._clear_shares(units)
        await self._wait_for_releases(units)
        if not stale:
            return units
        going_on = {unit for use in self._ledger.of_units(units) if use.phase is UsePhase.OPEN for unit in use.units}
        return {unit: device for unit, device in units.items() if unit not in going_on}

    async def _clear(self, stale: list[Use], units: Collection[DeviceId]) -> None:
        for use in stale:
            if use.phase is not UsePhase.OPEN:  # over, or an Allocate that no process answers any more
                self._end(use, units)
        is_open = [use for use in (self._ledger.get(use.key) for use in stale) if use and use.phase is UsePhase.OPEN]
        if not self._releases:  # the use goes on, in whichever pod
            for use in filter(lambda use: not use.is_overtaken, is_open):
                with self._ledger.keeping():
                    self._ledger.change(replace(use, pod=NO_POD, owners=()))
        elif self._looks:
            await self._look(is_open, units)
        elif not self._evidence.has_calls:  # a kubelet that calls would have told
            for use in filter(lambda use: not use.is_overtaken, is_open):
                self._cannot_clear(
                    use, units, "the kubelet does not report ends of pods, and its checkpoint is not to be read"
                )

    async def _look(self, uses: list[Use], units: Collection[DeviceId]) -> None:
        """Let the checkpoint decide about open ``uses``."""
        if not uses:
            return
        try:
            findings, reading = await self._past_stops(uses, units)
        except CheckpointUnread as error:
            for use in uses:
                self._cannot_tell(use, units, str(error))
            return
        for use in self._left_of(uses):
            match findings[use.key]:
                case Proof.LISTED:
                    logger.debug("%s: %s go on in their pod", self._resource, ", ".join(use.units))
                case Proof.ABSENT:
                    self._end(use, units)
                case Proof.UNPROVEN:
                    self._cannot_tell(use, units, doubt(use, reading))
                case Proof.CONTRADICTORY:
                    self._cannot_tell(use, units, "the kubelet's checkpoint lists some of the devices given together")

    async def _clear_shares(self, units: Mapping[DeviceId, DeviceId]) -> None:
        """Clear uses that have, or had, the devices behind ``units`` through other replicas.

        Nothing says that the kubelet has stored these, as its asking says of ``units``: an admission at the creation of
        a container runs beside others (spec 4.8). So a young use that is not listed is waited for.
        """
        loop = asyncio.get_running_loop()
        while sharing := self._sharing(units):
            if given_up := [use for use in sharing if use.phase is UsePhase.ALLOCATING]:
                for use in given_up:
                    self._end(use, units)
                continue
            try:
                findings, reading = await self._past_stops(sharing)
            except CheckpointUnread as error:
                raise DevicesNotReleased(list(units), self._resource, str(error)) from error
            young_s = 0.0
            for use in self._left_of(sharing):
                match findings[use.key]:
                    case Proof.ABSENT if not use.seen_in and loop.time() - use.since < GRACE_S:
                        young_s = max(young_s, use.since + GRACE_S - loop.time())
                    case Proof.ABSENT:
                        self._end(use, units)
                    case Proof.UNPROVEN:
                        self._cannot_clear(use, units, doubt(use, reading))
            if not young_s:
                return
            await asyncio.sleep(young_s)

    def _sharing(self, units: Mapping[DeviceId, DeviceId]) -> list[Use]:
        """The uses of the same devices through other replicas, without those that are just being given."""
        return [
            use
            for use in self._ledger.sharing(frozenset(units.values()), UsePhase.ALLOCATING, UsePhase.OPEN)
            if use.units.keys().isdisjoint(units) and use.key not in self._ledger.allocating
        ]

    def _left_of(self, uses: list[Use]) -> list[Use]:
        """The ``uses`` that another process has not released meanwhile, in their present state."""
        return [now for now in (self._ledger.get(use.key) for use in uses) if now is not None]

    # --- releases -----------------------------------------------------------------------------------------------------

    def _end(self, use: Use, units: Collection[DeviceId]) -> None:
        """The use is over; `_wait_for_releases` has it released."""
        if self._ledger.is_ours:
            with self._ledger.keeping():
                self._ledger.end(use.key, Origin.SYNTHESISED, seen=use.phase)
        else:
            self._cannot_clear(use, units, OTHER_RELEASES)

    async def _wait_for_releases(self, units: Mapping[DeviceId, DeviceId]) -> None:
        """Wait until no release of the devices behind ``units`` runs, by any replica; each is tried once."""
        devices = frozenset(units.values())
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        tried: set[AssignmentKey] = set()
        while over := [
            use
            for use in self._ledger.sharing(devices, UsePhase.RELEASING)
            if use.key not in tried or self._ending.is_ending(use.key)  # tried again by a look meanwhile
        ]:
            tried.add(over[0].key)
            await self._release(over[0], units, deadline)

    async def _release(self, use: Use, units: Collection[DeviceId], deadline: float) -> None:
        if not self._ledger.is_ours:
            self._cannot_clear(use, units, OTHER_RELEASES)
            return
        try:
            async with asyncio.timeout_at(deadline) as patience:
                await self._ending.end(use.key, Origin.SYNTHESISED)
        except Exception as error:  # an author's code may raise anything, a TimeoutError as well
            if patience.expired():
                problem = f"release() takes longer than {PATIENCE_S:g} s; it goes on"
                raise DevicesNotReleased(_wanted(use, units), self._resource, problem) from None
            self._cannot_clear(use, units, f"release() failed: {error}")

    # --- readings -----------------------------------------------------------------------------------------------------

    async def _past_stops(
        self, uses: list[Use], wanted: Collection[DeviceId] | None = None
    ) -> tuple[Mapping[AssignmentKey, Proof], Reading]:
        """`_findings`; if the plugin insists on clean devices, those once pods that are being stopped have ended."""
        findings, reading = await self._findings(uses, wanted)
        stopping = [use for use in uses if findings[use.key] is Proof.UNPROVEN and is_being_stopped(use, reading)]
        if not stopping or not self._is_strict:
            return findings, reading
        units = ", ".join(unit for use in stopping for unit in use.units)
        logger.info("%s: a pod waits for %s: the pod before it with them is still being stopped", self._resource, units)
        now = asyncio.get_running_loop().time()
        known = {key: by for key, by in self._stops_by.items() if self._ledger.get(key) is not None}
        # Once for each use: or a pod that takes an hour would hold the kubelet up with each one refused and made anew.
        self._stops_by = {use.key: now + PATIENCE_S for use in stopping} | known
        within_s = min(self._stops_by[use.key] for use in stopping) - now
        await self._evidence.stopping.until_stopped(stopping, within_s)
        return await self._findings(uses, wanted)

    async def _findings(
        self, uses: list[Use], wanted: Collection[DeviceId] | None = None
    ) -> tuple[Mapping[AssignmentKey, Proof], Reading]:
        """The proofs of ``uses`` by two readings that agree, as one of them may be older than it looks (spec 7.1).

        One reading is enough for a use that an earlier one has listed, and that has lasted so long that nothing from
        before it can come late.

        Raises:
            CheckpointUnread: there is nothing that can be relied on.
        """
        before: Mapping[AssignmentKey, Proof] = {}
        for _ in range(MOST_READINGS):
            reading = await self._evidence.read(uses)
            findings = {use.key: find(use, reading, wanted) for use in uses}
            for now in self._left_of(uses):  # their containers may have started meanwhile
                if findings[now.key] is Proof.LISTED:
                    with self._ledger.keeping():
                        self._ledger.change(after(now, reading))
            if all(
                before.get(use.key) is findings[use.key]
                or (findings[use.key] is Proof.ABSENT and use.seen_in and reading.at - use.since >= GRACE_S)
                for use in uses
            ):
                return findings, reading
            before = findings
        raise CheckpointUnread(f"{MOST_READINGS} readings of it disagree")

    # --- uses that may go on ------------------------------------------------------------------------------------------

    def _cannot_tell(self, use: Use, units: Collection[DeviceId], problem: str) -> None:
        """Checkpoints do not say whether ``use`` goes on. A kubelet that calls Deallocate would have told its end."""
        if self._is_strict or not self._evidence.has_calls:
            self._cannot_clear(use, units, problem)

    def _cannot_clear(self, use: Use, units: Collection[DeviceId], problem: str) -> None:
        wanted = _wanted(use, units)
        if self._is_strict:
            raise DevicesNotReleased(wanted, self._resource, problem)
        with self._ledger.keeping():
            # Without readings only a kubelet's Deallocate ends anything, and then all uses of the devices.
            give_up = self._ledger.overtake if self._looks else self._ledger.lose
            if not give_up(use.key, units):
                raise DevicesNotReleased(wanted, self._resource, OTHER_RELEASES)
        logger.warning("%s: %s are given without being released: %s", self._resource, ", ".join(wanted), problem)


def _wanted(use: Use, units: Collection[DeviceId]) -> list[DeviceId]:
    """The ``units`` that cannot be given because of ``use``: all of them, if it has them by other replicas."""
    return [unit for unit in use.units if unit in units] or list(units)
