"""Events about plugins and devices: each change is told, and no flood of them drowns what else happened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay.allocation.table import DeviceTable
from plugbay.manager.endpoints.notices import PluginChange, ResourceNotices
from plugbay.model.devices import ListedDevice
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.node.resource_events import BURST, REST_S, TOO_MANY, follow_resources
from plugbay.pods.events import ObjectRef
from plugbay.testing.fake_node import GOPHER, FakeNode

NODE = ObjectRef("Node", "", "n1", "u")


def listed(**health: str) -> DeviceTable:
    """Devices by their ID: ``Healthy``, ``Unhealthy``, or the latter with a reason, ``Unhealthy XidError``."""
    words = {name: text.split() for name, text in health.items()}
    return DeviceTable.of(
        ListedDevice(DeviceId(name), each[0], reason=" ".join(each[1:])) for name, each in words.items()
    )


def many(count: int, health: str) -> DeviceTable:
    return listed(**{f"g{number:05}": health for number in range(count)})


class World:
    def __init__(self, node: FakeNode) -> None:
        self.node = node
        self.notices = ResourceNotices()
        self.tables: dict[ResourceName, DeviceTable] = {}

    def send(self, table: DeviceTable, resource: ResourceName = GOPHER) -> None:
        self.notices.devices(resource, self.tables.get(resource, DeviceTable.of(())), table)
        self.tables[resource] = table

    async def told(self) -> list[tuple[str, str, int]]:
        """All events, once what has happened is told."""
        for _ in range(10):
            await asyncio.sleep(0)
        self.node.clock.advance(REST_S)
        for _ in range(10):
            await asyncio.sleep(0)
        return [(event.reason, event.message, event.count) for event in self.node.events]


@asynccontextmanager
async def followed(tmp_path: Path) -> AsyncIterator[World]:
    world = World(FakeNode(tmp_path))
    follower = follow_resources(world.node.events, NODE, aiter(world.notices), clock=world.node.clock)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(follower)
        yield world
        task.cancel()


def texts(told: Iterable[tuple[str, str, int]]) -> list[str]:
    return [message for _, message, _ in told]


async def test_each_change_is_told_with_its_device_and_reason(tmp_path: Path) -> None:
    async with followed(tmp_path) as world:
        world.notices.plugin(GOPHER, PluginChange.REGISTERED)
        world.send(listed(g1="Healthy", g2="Unhealthy", g3="Sick"))
        await world.told()
        world.send(listed(g1="Unhealthy XidError", g2="Healthy", g3="Sick"))
        await world.told()
        world.send(listed(g1="Unhealthy Overheated", g2="Healthy"))
        world.notices.plugin(GOPHER, PluginChange.STOPPED)
        await world.told()
        world.notices.plugin(GOPHER, PluginChange.GONE)
        assert [(reason, message) for reason, message, _ in await world.told()] == [
            ("PluginRegistered", f"The plugin of resource {GOPHER} is registered"),
            ("DeviceUnhealthy", f"Device g2 of resource {GOPHER} is unhealthy"),
            ("DeviceUnhealthy", f"Device g3 of resource {GOPHER} is unhealthy: Sick"),
            ("DeviceUnhealthy", f"Device g1 of resource {GOPHER} is unhealthy: XidError"),
            ("DeviceHealthy", f"Device g2 of resource {GOPHER} is healthy"),
            (
                "PluginStopped",
                f"The plugin of resource {GOPHER} has stopped: no device of it is given to a pod until it registers "
                "again",
            ),
            ("DeviceUnhealthy", f"Device g1 of resource {GOPHER} is unhealthy: Overheated"),
            ("PluginGone", f"The plugin of resource {GOPHER} did not come back in time: its devices no longer count"),
        ]


async def test_what_is_as_it_was_is_not_told(tmp_path: Path) -> None:
    async with followed(tmp_path) as world:
        world.send(listed(g1="Healthy", g2="Unhealthy"))
        before = await world.told()
        world.send(listed(g1="Healthy", g2="Unhealthy", g3="Healthy"))
        world.send(listed(g2="Unhealthy"))
        assert await world.told() == before


async def test_a_device_that_flaps_has_two_events_that_are_counted(tmp_path: Path) -> None:
    async with followed(tmp_path) as world:
        for _ in range(100):
            for _ in range(10):
                world.send(listed(g1="Unhealthy"))
                world.send(listed(g1="Healthy"))
            told = await world.told()
        assert [(reason, count) for reason, _, count in told] == [("DeviceUnhealthy", 100), ("DeviceHealthy", 100)]


async def test_many_devices_at_once_are_told_together(tmp_path: Path) -> None:
    async with followed(tmp_path) as world:
        world.send(many(10_000, "Unhealthy XidError"))
        await world.told()
        world.send(many(10_000, "Healthy"))
        names = "g00000, g00001, g00002, g00003, g00004 and 9995 more"
        assert texts(await world.told()) == [
            f"10000 devices of resource {GOPHER} are unhealthy: {names} (10000 for XidError)",
            f"10000 devices of resource {GOPHER} are healthy: {names}",
        ]


@pytest.mark.parametrize("resources", [1, 300])
async def test_a_flood_leaves_room_for_the_events_of_pods(tmp_path: Path, resources: int) -> None:
    async with followed(tmp_path) as world:
        world.node.events.normal(NODE, "First", "from before the flood")
        for step in range(200):
            for number in range(resources):
                world.send(listed(**{f"g{step}x{number}": "Unhealthy"}), ResourceName(f"example.com/r{number}"))
            told = await world.told()
        assert "from before the flood" in texts(told)
        assert told[-1][:2] == (TOO_MANY.reason, TOO_MANY.message)
        assert len(told) < 2 * BURST + 10
