"""Starts of containers, for plugins that hear of them: what they tell of the container before, and of who it is.

Between an Allocate and the container's start the kubelet has stored whose the devices are (spec 4.8), so that
PodResources can tell by then. It never tells of init containers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from plugbay.model.ids import DeviceId
from plugbay.sdk.release.owners import with_owners
from plugbay.sdk.release.uses import Use

if TYPE_CHECKING:
    from plugbay.sdk.release.custody import Custody

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

        Raises:
            PathUnusable: that cannot be kept, and the plugin hears of it.
        """
        custody = self._custody
        for use in self._users(units):
            before = use.started.intersection(units) - custody.ends.still_used(use)
            if custody.synthesises and self._hears_stops and before:
                await custody.ends.stop(use, before)

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
        if self._nameless(units):
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
