"""Keeps a plugin's list true: runs `discover` when something may have changed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import NoReturn

from plugbay.errors import PlugbayError
from plugbay.sdk.backoff import Backoff
from plugbay.sdk.calls import discovered
from plugbay.sdk.listing import Listing
from plugbay.sdk.plugin import DevicePlugin, watched_paths
from plugbay.sdk.watching import Changes, Watches

logger = logging.getLogger(__name__)


class Discovery:
    """Runs `discover` at start, on changes of the watched paths, every so often, and when asked.

    Args:
        listing: is told what was found.

    Attributes:
        found: set once there is a list. Before that a plugin must not register: its empty list would be a claim.
    """

    def __init__(self, plugin: DevicePlugin, listing: Listing) -> None:
        self.found = asyncio.Event()
        self._plugin = plugin
        self._listing = listing
        self._asked = asyncio.Event()
        self._backoff = Backoff()
        self._last_problem = ""

    def refresh(self) -> None:
        """Discover again soon; from the event loop's thread."""
        self._asked.set()

    async def run(self, watches: Watches) -> NoReturn:
        """Discover until cancelled."""
        paths = watched_paths(self._plugin)
        if not paths:
            await self._keep_looking()
        with watches.watch(paths) as changes:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow(changes))
                await self._keep_looking()

    async def _follow(self, changes: Changes) -> None:
        async for _ in changes:
            self._asked.set()

    async def _keep_looking(self) -> NoReturn:
        while True:
            self._asked.clear()
            delay_s = await self._look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._asked.wait()

    async def _look(self) -> float | None:
        """Discover once; returns the seconds until the next run is due at the latest."""
        moment = self._listing.moment()
        try:
            self._listing.found(await discovered(self._plugin), moment=moment)
        except Exception as error:  # an author's code may raise anything, and must not end the plugin
            if not is_path_missing(self._plugin, error):
                self._report(error)
                return self._backoff.next_delay_s()
            self._listing.found((), moment=moment)
        if self._last_problem:
            logger.info("%s: looking for devices works again", self._plugin.resource_name)
        self._last_problem = ""
        self._backoff.reset()
        self.found.set()
        return self._plugin.every

    def _report(self, error: Exception) -> None:
        is_ours = isinstance(error, PlugbayError)  # its sentence says all there is to say
        problem = str(error) if is_ours else f"{type(error).__name__}: {error}"
        if problem == self._last_problem:  # the same one over and over is one line in the log
            return
        self._last_problem = problem
        logger.error(
            "%s: looking for devices failed, %s: %s",
            self._plugin.resource_name,
            "the list stays as it was" if self.found.is_set() else "nothing is registered before there is a list",
            problem,
            exc_info=None if is_ours else error,
        )


def is_path_missing(plugin: DevicePlugin, error: Exception) -> bool:
    """Whether ``discover`` failed because what it looks at is not there: then there are no devices."""
    # Not Path.exists(), which raises for a path below a directory that is closed to us.
    return isinstance(error, FileNotFoundError) and not all(map(os.path.exists, watched_paths(plugin)))
