"""One run of a plugin's `discover`: a list of devices, or one list after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from plugbay.errors import InvalidDevice, InvalidDiscovery
from plugbay.errors.wording import shown
from plugbay.model.devices import Device
from plugbay.sdk.author.plugin import DevicePlugin, checked
from plugbay.sdk.hooks.calls import each_of, given
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Look:
    """The outcome of a run.

    Attributes:
        devices: all there were at first.
        later: the lists that come as things change; None when the run is over.
    """

    devices: list[Device]
    later: AsyncIterator[list[Device]] | None = None


@asynccontextmanager
async def looking(plugin: DevicePlugin) -> AsyncIterator[Look]:
    """Run ``discover``; an async generator that goes on is closed at the end of the block.

    Raises:
        InvalidDevice: it gives something else than devices.
        Exception: whatever the author's code raises.
    """
    found = await given(plugin.discover)
    if not hasattr(found, "__aiter__"):
        if found is None:
            raise InvalidDiscovery("None; does it lack a `return`? No devices are an empty list")
        if isinstance(found, Device):
            raise InvalidDiscovery(f"one Device, {found.id}; put it in a list")
        if not isinstance(found, Iterable):
            raise InvalidDiscovery(f"{shown(found)} instead of a list of plugbay.Device values")
        yield Look([checked(device) for device in found])
        return
    async with aclosing(each_of(found, plugin.discover)) as items:
        yield await _first(items)


async def discovered(plugin: DevicePlugin) -> list[Device]:
    """The devices that ``discover`` gives first; raises as `looking`."""
    async with looking(plugin) as look:
        return look.devices


async def _first(items: AsyncIterator[Any]) -> Look:
    """The first list of an async iterator: of single devices, which make one list, or of lists."""
    devices: list[Device] = []
    async for item in items:
        if _is_list(item) and not devices:
            return Look(_checked_list(item), _later(items))
        devices.append(checked(item))
    return Look(devices)


async def _later(items: AsyncIterator[Any]) -> AsyncIterator[list[Device]]:
    async for item in items:
        if not _is_list(item):
            raise InvalidDevice(shown(item), "discover() has to go on with lists, as it began")
        yield _checked_list(item)


def _is_list(item: object) -> bool:
    return not isinstance(item, Device | str) and isinstance(item, Iterable)


def _checked_list(item: Iterable[Any]) -> list[Device]:
    return [checked(device) for device in item]
