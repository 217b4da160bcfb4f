"""The history of one resource's devices and of the looks for them, as plain values; pages read them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final, TypeVar

from plugbay.model.devices import Device
from plugbay.model.health import Health, HealthState
from plugbay.model.ids import DeviceId
from plugbay.ops.metrics import Histogram, LabelCounter

LOOK_BOUNDS_S: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)
"""A directory is read in a millisecond; a vendor's library may take a minute."""

_Look = TypeVar("_Look")


class DeviceHistory:
    """The devices offered last, and what has changed from list to list.

    Attributes:
        devices: as offered last, replicas not counted.
        health: how many of them are in each state.
        since: when each device came to its present health, in the event loop's time.
        changes: devices that were ``added``, ``removed``, or ``changed`` in other ways than their health.
        transitions: how often a listed device came to another state or reason.
    """

    def __init__(self) -> None:
        self.devices: Mapping[DeviceId, Device] = {}
        self.health: Counter[HealthState] = Counter()
        self.since: dict[DeviceId, float] = {}
        self.changes: Counter[str] = Counter()
        self.transitions = LabelCounter(("other", "other"))

    def offered(self, devices: Iterable[Device]) -> None:
        """Note that these are the devices from now on."""
        now = asyncio.get_running_loop().time()
        before, self.devices = self.devices, {device.id: device for device in devices}
        for gone in before.keys() - self.devices.keys():
            self.changes["removed"] += 1
            self.health[before[gone].health.state] -= 1
            del self.since[gone]
        for each, device in self.devices.items():
            old = before.get(each)
            if old is device:
                continue
            self.health[device.health.state] += 1
            if old is None:
                self.changes["added"] += 1
                self.since[each] = now
                continue
            self.health[old.health.state] -= 1
            if (became := _kind(device.health)) != _kind(old.health):
                self.transitions.count(became)
                self.since[each] = now
            if old.with_health(device.health) != device:
                self.changes["changed"] += 1


def _kind(health: Health) -> tuple[str, str]:
    """The kind of a health, without its message, which changes with every degree of a temperature."""
    return health.state.value, health.reason


class Looks:
    """The looks for devices, and how they went.

    Attributes:
        taken: how long each took until there were devices, or none could be had.
        failures: looks that gave no list, and generators that ended.
        problem: why the last look failed; empty if it did not.
        last_s: how long the last one took.
        ended: when it ended, in the event loop's time; None before the first.
    """

    def __init__(self) -> None:
        self.taken = Histogram(LOOK_BOUNDS_S)
        self.failures = 0
        self.problem = ""
        self.last_s = 0.0
        self.ended: float | None = None

    @asynccontextmanager
    async def timed(self, look: AbstractAsyncContextManager[_Look]) -> AsyncIterator[_Look]:
        """Count ``look`` by its beginning: a generator goes on for as long as it has news."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with AsyncExitStack() as looking:
            try:
                found = await looking.enter_async_context(look)
            finally:
                self.ended = loop.time()
                self.last_s = self.ended - began
                self.taken.observe(self.last_s)
                self.problem = ""  # `failed` is told after this
            yield found

    def failed(self, problem: str) -> None:
        self.failures += 1
        self.problem = problem
