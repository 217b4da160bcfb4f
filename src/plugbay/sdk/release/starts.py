"""Starts of containers, for plugins that hear of them: an earlier container ended, and this pod has the devices.

Between an Allocate and the container's start the kubelet has stored which pod has the devices (spec 4.8), so that
PodResources can tell by then. It never tells of init containers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Final

from plugbay.errors import CheckpointUnread, DevicesStillUsed
from plugbay.model.ids import DeviceId, PodUid
from plugbay.sdk.author.release_settings import ReleasePolicy
from plugbay.sdk.hooks.turns import START_PATIENCE_S
from plugbay.sdk.release.context import Context
from plugbay.sdk.release.ending import Ends
from plugbay.sdk.release.evidence.owners import with_owners
from plugbay.sdk.release.giving import MOST_READINGS
from plugbay.sdk.release.uses import Reading, Use, doubt_beside, is_soon_told

logger = logging.getLogger(__name__)

QUIET_S: Final = 2.0
"""The time to wait for Allocates of ours: a kubelet gives a start 30 s in all, and PodResources may need 10 of them."""


class Starts:
    """The starts of containers with devices of one resource."""

    def __init__(self, context: Context, ending: Ends) -> None:
        self._context = context
        self._resource = context.resource
        self._ledger = context.ledger
        self._evidence = context.evidence
        self._quiet = context.shared.quiet
        self._pod_lists = context.shared.pod_lists
        self._ending = ending

    @asynccontextmanager
    async def starting(self, units: Collection[DeviceId]) -> AsyncIterator[None]:
        """Run the block, an answer to PreStartContainer: a container with ``units`` is about to be created.

        An earlier container that had the units has ended, which the plugin hears before. A kubelet that calls
        PostStopContainer has told so, unless it has given that up, or was killed.

        Raises:
            DevicesStillUsed: it is not known yet whether other pods use them as well.
            PathUnusable: it cannot be kept, and the plugin is to hear of the container's end, or insists on releases.
        """
        await self._stop_earlier(units)
        yield
        await self._started(units)

    # --- the container before -----------------------------------------------------------------------------------------

    async def _stop_earlier(self, units: Collection[DeviceId]) -> None:
        if not (self._context.hears_stops and self._context.shared.settings.source.reads_checkpoints):
            return
        for use in self._users(units):
            before = use.started.intersection(units)
            if before and await self._are_its_own(use, before):
                await self._stop(use, before)

    async def _stop(self, use: Use, units: Collection[DeviceId]) -> None:
        try:
            async with asyncio.timeout(START_PATIENCE_S) as patience:
                await self._ending.stop(use, units)
        except TimeoutError:
            if not patience.expired():  # then it is the author's own
                raise
            problem = f"post_stop() takes longer than {START_PATIENCE_S:g} s; it goes on"
            raise DevicesStillUsed(sorted(units), self._resource, problem) from None

    async def _are_its_own(self, use: Use, units: Collection[DeviceId]) -> bool:
        """Whether only the pod of ``use``, which the kubelet asks for, has ``units``.

        Not all uses that were overtaken are other pods': when no checkpoint came in time, an app container has
        overtaken its pod's init container. By now the kubelet has stored which pod has the units.
        """
        others = self._ending.others_of(use, units)
        if not others:
            return True
        reading, holder = await self._reading_of(units, others)
        for other in others:
            if not (problem := doubt_beside(other, reading, holder)):
                continue
            if self._context.plugin.release_policy is ReleasePolicy.STRICT or is_soon_told(other, reading):
                raise DevicesStillUsed(sorted(units), self._resource, problem)
            logger.warning(
                "%s: %s go from one container of a pod to the next without post_stop(), which another pod may suffer "
                "from: %s",
                self._resource,
                ", ".join(sorted(units)),
                problem,
            )
            return False
        return True

    async def _reading_of(self, units: Collection[DeviceId], others: Collection[Use]) -> tuple[Reading, PodUid]:
        """A reading that lists ``units``, the pod that has them, and the ``others`` that go on in other pods.

        Raises:
            DevicesStillUsed: there is no such reading.
        """
        problem = "the kubelet's checkpoint does not list them"
        try:
            for _ in range(MOST_READINGS):
                reading = await self._evidence.read(others)
                pods = [{pod for pod, _ in reading.listed.get(unit, ())} for unit in units]
                if all(pods):  # else it is from before
                    holder = min(set().union(*pods))
                    going_on = await asyncio.to_thread(self._evidence.stopping.going_on, others, beside={holder})
                    return replace(reading, going_on=going_on), holder
        except CheckpointUnread as error:
            problem = str(error)
        raise DevicesStillUsed(sorted(units), self._resource, problem)

    # --- this container -----------------------------------------------------------------------------------------------

    async def _started(self, units: Collection[DeviceId]) -> None:
        """Keep that the kubelet is about to learn that the container can be created."""
        for use in self._users(units):
            started = use.started.union(unit for unit in use.units if unit in units)
            # A start that is not remembered is followed by a release without `post_stop`.
            with nullcontext() if self._context.hears_stops else self._ledger.keeping():
                self._ledger.change(replace(use, started=started))
        if self._nameless(units) and self._pod_lists.may_be_asked:
            await self._find_owners(units)

    def _users(self, units: Collection[DeviceId]) -> list[Use]:
        """The uses of ``units``; for units that were to be given and were not, the uses that had them before."""
        users = self._ledger.of_units(units)
        return [*users, *self._ledger.overtaken(set(units).difference(*(use.units for use in users)))]

    async def _find_owners(self, units: Collection[DeviceId]) -> None:
        self._quiet.stored([(self._resource, unit) for unit in units])
        try:
            async with asyncio.timeout(QUIET_S):
                await self._quiet.until_quiet()
        except TimeoutError:
            self._context.next_look.make_urgent()  # the next look tells
            return
        asked_since = asyncio.get_running_loop().time()
        pods = await self._pod_lists.pods(asked_since=asked_since)
        if self._pod_lists.asked_at < asked_since:  # the kubelet may be storing what it was answered for others
            self._context.next_look.make_urgent()
        for use in self._nameless(units):
            with self._ledger.keeping():
                self._ledger.change(with_owners(use, pods, as_of=self._pod_lists.asked_at))

    def _nameless(self, units: Collection[DeviceId]) -> list[Use]:
        return [use for use in self._ledger.of_units(units) if not any(owner.pod for owner in use.owners)]
