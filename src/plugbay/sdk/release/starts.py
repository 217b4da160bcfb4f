"""Starts of containers, for plugins that hear of them: what they tell of the container before, and of who it is.

Between an Allocate and the container's start the kubelet has stored whose the devices are (spec 4.8), so that
PodResources can tell by then. It never tells of init containers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from plugbay.errors import CheckpointUnread, DevicesStillUsed
from plugbay.model.ids import DeviceId, PodUid
from plugbay.sdk.release.clearance import MOST_READINGS
from plugbay.sdk.release.owners import with_owners
from plugbay.sdk.release.settings import ReleasePolicy
from plugbay.sdk.release.uses import Reading, Use, doubt_beside, is_soon_told
from plugbay.sdk.turns import START_PATIENCE_S

if TYPE_CHECKING:
    from plugbay.sdk.release.custody import Custody

logger = logging.getLogger(__name__)

QUIET_S: Final = 2.0
"""How long to wait for Allocates of ours: a kubelet gives a start 30 s in all, and PodResources may need 10 of them."""


class Starts:
    """
    Args:
        hears_stops: whether the plugin is told of the ends of containers.
    """

    def __init__(self, custody: Custody, *, hears_stops: bool) -> None:
        self._custody = custody
        self._hears_stops = hears_stops

    async def begin(self, units: Collection[DeviceId]) -> None:
        """A container with ``units`` is about to be created: an earlier one that had them has ended.

        A kubelet that calls PostStopContainer has told so, unless it has given that up, or was killed.

        Raises:
            DevicesStillUsed: nobody can tell yet whether others use them as well.
            PathUnusable: that cannot be kept, and the plugin hears of it.
        """
        custody = self._custody
        if not (self._hears_stops and custody.shared.settings.source.reads_checkpoints):
            return
        for use in self._users(units):
            before = use.started.intersection(units)
            if before and await self._are_its_own(use, before):
                await self._stop(use, before)

    async def _stop(self, use: Use, units: Collection[DeviceId]) -> None:
        try:
            async with asyncio.timeout(START_PATIENCE_S) as patience:
                await self._custody.ends.stop(use, units)
        except TimeoutError:
            if not patience.expired():  # then it is the author's own
                raise
            problem = f"post_stop() takes longer than {START_PATIENCE_S:g} s; it goes on"
            raise DevicesStillUsed(sorted(units), self._custody.resource, problem) from None

    async def _are_its_own(self, use: Use, units: Collection[DeviceId]) -> bool:
        """Whether only the pod of ``use``, which the kubelet asks for, has ``units``.

        Of uses that were overtaken not all are other pods': when no checkpoint came in time, an app container has
        overtaken its pod's init container. By now the kubelet has stored whose the units are.
        """
        others = self._custody.ends.others_of(use, units)
        if not others:
            return True
        reading, holder = await self._reading_of(units, others)
        for other in others:
            if not (problem := doubt_beside(other, reading, holder)):
                continue
            if self._custody.policy is ReleasePolicy.STRICT or is_soon_told(other, reading):
                raise DevicesStillUsed(sorted(units), self._custody.resource, problem)
            logger.warning(
                "%s: %s go from one container of a pod to the next without post_stop(), which another pod may suffer "
                "from: %s",
                self._custody.resource,
                ", ".join(sorted(units)),
                problem,
            )
            return False
        return True

    async def _reading_of(self, units: Collection[DeviceId], others: Collection[Use]) -> tuple[Reading, PodUid]:
        """A reading that lists ``units``, the pod that has them, and which of ``others`` go on elsewhere.

        Raises:
            DevicesStillUsed: there is none.
        """
        custody, problem = self._custody, "the kubelet's checkpoint does not list them"
        try:
            for _ in range(MOST_READINGS):
                reading = await custody.read(others)
                pods = [{pod for pod, _ in reading.listed.get(unit, ())} for unit in units]
                if all(pods):  # else it is from before
                    holder = min(set().union(*pods))
                    going_on = await asyncio.to_thread(custody.stopping.going_on, others, beside={holder})
                    return replace(reading, going_on=going_on), holder
        except CheckpointUnread as error:
            problem = str(error)
        raise DevicesStillUsed(sorted(units), custody.resource, problem)

    async def end(self, units: Collection[DeviceId]) -> None:
        """The kubelet is about to learn that the container can be created.

        Raises:
            PathUnusable: that cannot be kept, and the plugin is to hear of its end, or insists on its devices' release.
        """
        custody = self._custody
        for use in self._users(units):
            started = use.started.union(unit for unit in use.units if unit in units)
            # A start that nobody remembers is followed by a release without `post_stop`.
            with nullcontext() if self._hears_stops else custody.book.keeping():
                custody.book.change(replace(use, started=started))
        if self._nameless(units) and custody.shared.pod_lists.may_be_asked:
            await self._find_owners(units)

    def _users(self, units: Collection[DeviceId]) -> list[Use]:
        """Of units that others were to be given and have not got, whoever had them before."""
        book = self._custody.book
        users = book.of_units(units)
        return [*users, *book.overtaken(set(units).difference(*(use.units for use in users)))]

    async def _find_owners(self, units: Collection[DeviceId]) -> None:
        custody = self._custody
        custody.shared.quiet.stored([(custody.resource, unit) for unit in units])
        try:
            async with asyncio.timeout(QUIET_S):
                await custody.shared.quiet.until_quiet()
        except TimeoutError:
            custody.look_soon()  # the next look tells
            return
        lists, asked_since = custody.shared.pod_lists, asyncio.get_running_loop().time()
        pods = await lists.pods(asked_since=asked_since)
        if lists.asked_at < asked_since:  # the kubelet may be storing what it was answered for others
            custody.look_soon()
        for use in self._nameless(units):
            with custody.book.keeping():
                custody.book.change(with_owners(use, pods, as_of=lists.asked_at))

    def _nameless(self, units: Collection[DeviceId]) -> list[Use]:
        return [use for use in self._custody.book.of_units(units) if not any(owner.pod for owner in use.owners)]
