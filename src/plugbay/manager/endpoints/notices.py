"""News about plugins and devices since a reader last looked: for events of the node and for pods' status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from enum import Enum

from plugbay.allocation.table import DeviceTable
from plugbay.model.devices import ListedDevice
from plugbay.model.ids import DeviceId, ResourceName


class PluginChange(Enum):
    REGISTERED = "registered"
    STOPPED = "stopped"
    """The plugin's stream ended; its devices still count for a while."""
    GONE = "gone"
    """The plugin did not come back in time."""


@dataclass(slots=True)
class ResourceNews:
    """News about one resource.

    Attributes:
        plugin: each kind of change once, in the order of their last occurrences.
        failed: devices that were not healthy, even for a moment, as they were listed then.
        recovered: devices that are healthy again.
    """

    plugin: dict[PluginChange, None] = field(default_factory=dict)
    failed: dict[DeviceId, ListedDevice] = field(default_factory=dict)
    recovered: set[DeviceId] = field(default_factory=set)

    def listed(self, device: ListedDevice) -> None:
        """Note that a device's health has changed."""
        if device.is_healthy:
            self.recovered.add(device.id)
        else:
            self.failed[device.id] = device
            self.recovered.discard(device.id)


class ResourceNotices:
    """News by resource, for one reader. A device that changes several times between two reads appears once."""

    def __init__(self) -> None:
        self._news: dict[ResourceName, ResourceNews] = {}
        self._filled = asyncio.Event()

    def plugin(self, resource: ResourceName, change: PluginChange) -> None:
        changes = self._of(resource).plugin
        changes.pop(change, None)
        changes[change] = None

    def devices(self, resource: ResourceName, before: DeviceTable, after: DeviceTable) -> None:
        """Note what a new list of the plugin changes."""
        if changed := list(changed_health(before, after)):
            news = self._of(resource)
            for device in changed:
                news.listed(device)

    def _of(self, resource: ResourceName) -> ResourceNews:
        self._filled.set()
        return self._news.setdefault(resource, ResourceNews())

    async def __aiter__(self) -> AsyncIterator[dict[ResourceName, ResourceNews]]:
        """Yield all news since the last read, as soon as there are any."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            news, self._news = self._news, {}
            yield news


def changed_health(before: DeviceTable, after: DeviceTable) -> Iterable[ListedDevice]:
    """The devices that became healthy or unhealthy, or unhealthy for another reason, and new unhealthy devices.

    The tables' sets of healthy devices cannot be compared: the set of a plugin that is away is empty.
    """
    if after.devices is before.devices:
        return
    for rank, device in enumerate(after.devices):
        if after.ranks is before.ranks:
            known: ListedDevice | None = before.devices[rank]
        else:
            known = before.devices[before.ranks[device.id]] if device.id in before.ranks else None
        if known is device:
            continue
        was_healthy = known is None or known.is_healthy
        if device.is_healthy != was_healthy or (not device.is_healthy and known and known.reason != device.reason):
            yield device
