"""Keeps a plugin's list true: runs `discover` when something may have changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from plugbay.kernel.watch import PathWatch, watch_paths
from plugbay.model.devices import Device
from plugbay.sdk.backoff import Backoff
from plugbay.sdk.calls import discovered
from plugbay.sdk.plugin import DevicePlugin, watched_paths

logger = logging.getLogger(__name__)


class Discovery:
    """Runs `discover` at start, on changes of the watched paths, every so often, and when asked.

    Args:
        publish: is handed each list.
    """

    def __init__(self, plugin: DevicePlugin, publish: Callable[[Iterable[Device]], None]) -> None:
        self._plugin = plugin
        self._publish = publish
        self._asked = asyncio.Event()
        self._backoff = Backoff()
        self._last_problem = ""
        self.looked = asyncio.Event()
        """Set once the first run is over, well or not."""

    def refresh(self) -> None:
        self._asked.set()

    async def run(self) -> None:
        """Discover until cancelled."""
        async with watch_paths(watched_paths(self._plugin)) as changes:
            while True:
                delay_s = await self._look()
                self.looked.set()
                await self._wait(changes, delay_s)
                self._asked.clear()

    async def _look(self) -> float | None:
        """Discover once; returns the seconds until the next run is due at the latest."""
        try:
            self._publish(await discovered(self._plugin))
        except Exception as error:  # an author's code may raise anything, and must not end the plugin
            if isinstance(error, FileNotFoundError) and any(not path.exists() for path in watched_paths(self._plugin)):
                self._publish(())
            else:
                self._report(error)
                return self._backoff.next_delay_s()
        self._backoff.reset()
        self._last_problem = ""
        return self._plugin.every

    async def _wait(self, changes: PathWatch, delay_s: float | None) -> None:
        """Until a path changes, somebody asks, or ``delay_s`` has passed."""
        waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._asked.wait())]
        if watched_paths(self._plugin):
            waiting.append(asyncio.ensure_future(_next_change(changes)))
        try:
            await asyncio.wait(waiting, timeout=delay_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def _report(self, error: Exception) -> None:
        problem = f"{type(error).__name__}: {error}"
        if problem != self._last_problem:  # the same one over and over is one line in the log
            self._last_problem = problem
            logger.error(
                "%s: looking for devices failed, the list stays as it was: %s",
                self._plugin.resource_name,
                problem,
                exc_info=error,
            )


async def _next_change(changes: PathWatch) -> None:
    await anext(changes)
