"""Calling what an author wrote, whether it is plain, async or a generator, without blocking the event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from plugbay.model.devices import Device
from plugbay.sdk.plugin import DevicePlugin, checked


async def call(hook: Callable[..., Any], *arguments: object) -> Any:
    """The result of a plain or async hook. Plain ones run in a thread."""
    if inspect.iscoroutinefunction(hook):
        return await hook(*arguments)
    answer = await asyncio.to_thread(hook, *arguments)
    return await answer if inspect.isawaitable(answer) else answer


async def discovered(plugin: DevicePlugin) -> list[Device]:
    """The devices that the plugin's `discover` gives.

    Raises:
        InvalidDevice: it gives something else.
        Exception: whatever the author's code raises.
    """
    if inspect.iscoroutinefunction(plugin.discover):
        found = await plugin.discover()
    else:
        found = await asyncio.to_thread(_run, plugin.discover)
        if inspect.isawaitable(found):
            found = await found
    if hasattr(found, "__aiter__"):
        return [checked(device) async for device in found]
    return [checked(device) for device in found or ()]


def _run(discover: Callable[[], Any]) -> Any:
    """Plain generators do their work while they are read, so they are read here, in the thread."""
    found = discover()
    return list(found) if inspect.isgenerator(found) else found
