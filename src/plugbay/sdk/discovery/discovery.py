"""Keeps a plugin's list true: runs `discover` when something may have changed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, NoReturn

from plugbay.errors import DiscoveryEnded, PathUnusable
from plugbay.model.devices import Device
from plugbay.ops.backoff import RETRIES, Backoff
from plugbay.ops.tasks import first
from plugbay.sdk.author.occasions import seconds_of
from plugbay.sdk.author.plugin import DevicePlugin, discover_function, resource_of, watched_paths
from plugbay.sdk.author.problems import problem_of, trace_of
from plugbay.sdk.author.uevent_patterns import matches, patterns_of
from plugbay.sdk.discovery.history import Looks
from plugbay.sdk.discovery.host_paths import HostPaths
from plugbay.sdk.discovery.listing import Listing
from plugbay.sdk.discovery.reasons import Reasons
from plugbay.sdk.discovery.run import looking
from plugbay.sdk.watching import PathChanges, Watches, warn_of_silence

if TYPE_CHECKING:
    from pathlib import Path

    from plugbay.sdk.cdi.publication import CdiPublication

logger = logging.getLogger(__name__)

STEADY_S: Final = 30.0
"""A generator that ends sooner may do so again: it waits longer each time before it is started anew."""
BLIND_EVERY_S: Final = 5.0
"""The interval between looks where there are no uevents."""
FIRST_RECHECK_S: Final = 10.0
LAST_RECHECK_S: Final = 300.0
"""Devices that could not be given are looked at again after 10 s; after twice as long each time they fail again."""


class Discovery:
    """Runs `discover` at start, on changes of what the plugin watches, every so often, and when asked.

    Args:
        listing: is told what was found.
        cdi: describes what was found to engines, before it is listed.

    Attributes:
        found: set once there is a list. Before that a plugin must not register: its empty list would be a claim.
        looks: how the runs of `discover` went.

    Raises:
        InvalidWatch: what the plugin watches cannot be watched.
    """

    def __init__(self, plugin: DevicePlugin, listing: Listing, cdi: CdiPublication | None = None) -> None:
        self.found = asyncio.Event()
        self.looks = Looks()
        self._plugin = plugin
        self._listing = listing
        self._cdi = cdi
        self._paths = watched_paths(plugin)
        self._uevents = patterns_of(plugin.resource_name, plugin.watch_uevents)
        self._host_paths = HostPaths(plugin.resource_name, judges=plugin.check_paths, root=plugin._host_root)
        self._is_blind = False
        self._reasons = Reasons()
        self._backoff = Backoff(RETRIES)
        self._last_problem = ""
        self._recheck: asyncio.TimerHandle | None = None
        self._recheck_s = 0.0
        self._failed_at = -math.inf  # the loop's time may have begun with the machine's, a moment ago
        listing.follow(resource_of(plugin), self._allocation_failed)

    def refresh(self, why: str = "refresh()") -> None:
        """Discover again soon; from the event loop's thread."""
        self._reasons.add(why)

    async def run(self, watches: Watches) -> None:
        """Discover until cancelled."""
        if self._plugin.modes is not None:
            self._listing.restrain(self._plugin.modes.mode(self._plugin.resource_name))
        async with contextlib.AsyncExitStack() as up, asyncio.TaskGroup() as tasks:
            if self._paths:
                changes = up.enter_context(watches.watch(self._paths))
                tasks.create_task(self._follow_paths(changes))
                if self._plugin.every is None and not self._uevents:
                    remedy = "set `every` or `watch_uevents`"
                    tasks.create_task(warn_of_silence(self._plugin.resource_name, self._paths, remedy=remedy))
            if self._uevents:
                tasks.create_task(self._follow_uevents(await self._open_uevents(up)))
            if self._plugin.check_paths:
                tasks.create_task(self._host_paths.follow(watches, self._reasons.add))
            up.callback(self._cancel_recheck)
            await self._keep_looking()

    async def _follow_paths(self, changes: PathChanges) -> None:
        async for changed in changes:
            for path in sorted(changed):
                self._reasons.add(f"watch of {path}")

    async def _open_uevents(self, up: contextlib.AsyncExitStack) -> AsyncIterator[object]:
        from plugbay.kernel.uevent import open_uevents  # here and below: few plugins want uevents

        try:
            return await up.enter_async_context(open_uevents())
        except OSError as error:
            self._is_blind = True
            logger.warning(
                "%s: cannot receive uevents, looking at intervals instead: %s", self._plugin.resource_name, error
            )
            return _never()

    async def _follow_uevents(self, events: AsyncIterator[object]) -> None:
        from plugbay.kernel.uevent import Uevent

        async for event in events:
            if not isinstance(event, Uevent) or matches(self._uevents, event.properties):
                self._reasons.add(str(event))

    async def _keep_looking(self) -> NoReturn:
        why = "first look"
        while True:
            self._reasons.take()  # given before this look: it will see
            delay_s = await self._look(why)
            why = await self._next_reason(delay_s)

    async def _next_reason(self, delay_s: float | None) -> str:
        try:
            async with asyncio.timeout(delay_s):
                await self._reasons.wait()
        except TimeoutError:
            return "looking for devices failed before" if self._last_problem else "interval"
        await self._reasons.settle()
        return self._reasons.take()

    async def _look(self, why: str) -> float | None:
        """Discover once; returns the seconds until the next run is due at the latest."""
        moment = self._listing.moment()
        try:
            async with self.looks.timed(looking(self._plugin)) as look:
                await self._take(look.devices, moment, why)
                if look.later is not None:
                    return await self._follow_lists(look.later)
        except Exception as error:  # an author's code may raise anything, and must not end the plugin
            return await self._failed(error, why)
        self._works()
        self._backoff.reset()
        return self._every_s()

    def _every_s(self) -> float | None:
        every = None if self._plugin.every is None else seconds_of(self._plugin.every)
        return min(BLIND_EVERY_S, every or BLIND_EVERY_S) if self._is_blind else every

    async def _take(self, devices: list[Device], moment: int, why: str) -> None:
        devices = await self._host_paths.checked(devices)
        if self._cdi is not None:
            devices = await self._cdi.prepare(devices)
        self._listing.found(devices, moment=moment, why=why)
        if not devices and not self.found.is_set():
            self._tell_of_none()
        self.found.set()
        if self._cdi is not None:
            await self._cdi.offered()

    def _tell_of_none(self) -> None:
        missing = " or ".join(map(str, missing_paths(self._plugin)))
        logger.warning(
            "%s: discover() has found no devices yet%s; a kubelet is offered 0",
            self._plugin.resource_name,
            f" (there is no {missing})" if missing else "",
        )

    async def _follow_lists(self, lists: AsyncIterator[list[Device]]) -> float | None:
        """Take the lists of a generator that goes on, until there is a reason to start it anew; returns as `_look`."""
        loop = asyncio.get_running_loop()
        started, delay_s = loop.time(), None

        async def follow() -> None:
            nonlocal delay_s
            problem = await self._take_all(lists)
            if loop.time() - started >= STEADY_S:
                self._backoff.reset()
                self._last_problem = ""
            delay_s = await self._failed(problem, "discover() ended")

        await first(follow(), self._reasons.wait())
        return delay_s

    async def _take_all(self, lists: AsyncIterator[list[Device]]) -> Exception:
        """Take ``lists`` to their end; returns what ended them."""
        while True:
            moment = self._listing.moment()
            try:
                devices = await anext(lists)
                await self._take(devices, moment, "discover() says so")
            except StopAsyncIteration:
                return DiscoveryEnded()
            except Exception as error:  # an author's code may raise anything
                return error
            self._works()

    async def _failed(self, error: Exception, why: str) -> float | None:
        """Say that looking failed; returns the seconds until it is tried again."""
        if is_path_missing(self._plugin, error):
            try:
                await self._take([], self._listing.moment(), why)
            except PathUnusable as unusable:  # of the CDI spec
                error = unusable
            else:
                self._works()
                self._backoff.reset()
                return self._every_s()
        self._report(error)
        return self._backoff.next_delay_s()

    def _works(self) -> None:
        if self._last_problem:
            logger.info("%s: looking for devices works again", self._plugin.resource_name)
        self._last_problem = ""

    def _report(self, error: Exception) -> None:
        problem = problem_of(error, discover_function(self._plugin))
        self.looks.failed(problem)
        if problem == self._last_problem:  # the same one over and over is one line in the log
            return
        self._last_problem = problem
        logger.error(
            "%s: looking for devices failed, %s: %s",
            self._plugin.resource_name,
            "the list stays as it was" if self.found.is_set() else "nothing is registered before there is a list",
            problem,
            exc_info=trace_of(error),
        )

    def _allocation_failed(self) -> None:
        """Look again later, or devices of a plugin that has nothing else to say of their health never recover."""
        loop = asyncio.get_running_loop()
        is_rare = loop.time() - self._failed_at > 2 * LAST_RECHECK_S
        self._recheck_s = FIRST_RECHECK_S if is_rare else min(LAST_RECHECK_S, 2 * self._recheck_s)
        self._failed_at = loop.time()
        self._cancel_recheck()
        self._recheck = loop.call_later(self._recheck_s, self._look_for_failed)

    def _look_for_failed(self) -> None:
        if self._listing.has_failed:
            self._reasons.add("devices that could not be given")

    def _cancel_recheck(self) -> None:
        if self._recheck is not None:
            self._recheck.cancel()


async def _never() -> AsyncIterator[object]:
    await asyncio.Event().wait()
    yield None


def is_path_missing(plugin: DevicePlugin, error: Exception) -> bool:
    """Whether ``discover`` failed because a path that it looks at is missing: then there are no devices."""
    return isinstance(error, FileNotFoundError) and bool(missing_paths(plugin))


def missing_paths(plugin: DevicePlugin) -> list[Path]:
    """The watched paths that do not exist."""
    # Not Path.exists(), which raises for a path below a directory that is closed to us.
    return [path for path in watched_paths(plugin) if not os.path.exists(path)]
