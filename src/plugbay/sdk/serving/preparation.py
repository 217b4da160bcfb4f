"""The author's hooks around serving: one may fail and be tried again, the other must not keep a process from ending."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from plugbay.ops.backoff import RETRIES, Backoff
from plugbay.sdk.author.plugin import DevicePlugin
from plugbay.sdk.author.problems import problem_of, trace_of
from plugbay.sdk.hooks.calls import call

logger = logging.getLogger(__name__)

TEAR_DOWN_S: Final = 10.0
"""A kubelet gives a pod 30 s to end by default; draining and other plugins of the process need some of it."""
SLOW_SET_UP_S: Final = 30.0


async def set_up(plugin: DevicePlugin, failed: Callable[[], None]) -> None:
    """Call the plugin's ``set_up`` until it succeeds; ``failed`` is told each time it does not."""
    if type(plugin).set_up is DevicePlugin.set_up:
        return
    backoff, last_problem = Backoff(RETRIES), ""
    while True:
        try:
            await _attempt(plugin)
            return
        except Exception as error:  # an author's code may raise anything
            problem = problem_of(error)
            if problem != last_problem:  # the same one over and over is one line in the log
                logger.error(
                    "%s: set_up() failed and is tried again: %s",
                    plugin.resource_name,
                    problem,
                    exc_info=trace_of(error),
                )
            last_problem = problem
        failed()
        await asyncio.sleep(backoff.next_delay_s())


async def _attempt(plugin: DevicePlugin) -> None:
    loop = asyncio.get_running_loop()
    slow = loop.call_later(SLOW_SET_UP_S, logger.warning, "%s: set_up() still runs", plugin.resource_name)
    try:
        await call(plugin.set_up)
    finally:
        slow.cancel()


async def tear_down(plugin: DevicePlugin) -> None:
    """Call the plugin's ``tear_down``, once; what goes wrong is logged."""
    if type(plugin).tear_down is DevicePlugin.tear_down:
        return
    try:
        async with asyncio.timeout(TEAR_DOWN_S):
            await call(plugin.tear_down)
    except TimeoutError:
        logger.error("%s: tear_down() took more than %g s and is given up", plugin.resource_name, TEAR_DOWN_S)
    except Exception as error:  # an author's code may raise anything
        logger.error("%s: tear_down() failed: %s", plugin.resource_name, problem_of(error), exc_info=trace_of(error))
