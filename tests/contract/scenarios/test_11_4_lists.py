"""Spec 11.4: device lists, capacity, and what is left when a plugin goes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plugbay.errors import AdmissionError
from plugbay.kubelet.checkpoint import load
from plugbay.manager.serving.snapshot import ResourceCount
from plugbay.manager.state import Expired, Live
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.health import unhealthy
from plugbay.testing.fakes.plugin import FakePlugin
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from tests.contract.rigs.manager import GOPHER, OTHER, Bench, SleepersClock, bench, listed, pod, rejection

ALL_OPTIONS = PluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
GRACE_S = 300


def ill(*ids: str) -> list[Device]:
    return [Device(each, health=unhealthy("hot")) for each in ids]


def raw_list(*devices: tuple[str, str]) -> bytes:
    """A list of IDs with any health text."""
    return pb.ListAndWatchResponse(
        devices=[pb.Device(ID=id, health=health) for id, health in devices]
    ).SerializeToString()


def registered_in_checkpoint(b: Bench) -> list[str]:
    """The resources the file names; to be read after the manager has stopped."""
    return list(load(b.paths.checkpoint.read_bytes(), source="test").registered_devices or ())


async def two_of_three(b: Bench) -> FakePlugin:
    plugin = await b.plugin("a", "b", "c")
    plugin.send([*listed("ab"), *ill("c")])
    await b.counts(3, 2)
    return plugin


async def test_s037_two_healthy_one_unhealthy(sockets: Path) -> None:
    async with bench(sockets) as b:
        await two_of_three(b)


async def test_s038_unhealthy_device_that_is_no_longer_listed_does_not_count(sockets: Path) -> None:
    async with bench(sockets) as b:
        (await two_of_three(b)).send(listed("ab"))
        await b.counts(2, 2)


async def test_s039_device_that_turns_unhealthy_stays_capacity(sockets: Path) -> None:
    async with bench(sockets) as b:
        (await two_of_three(b)).send([*listed("a"), *ill("b", "c")])
        await b.counts(3, 1)


async def test_s040_one_dropped_and_the_others_unhealthy(sockets: Path) -> None:
    async with bench(sockets) as b:
        (await two_of_three(b)).send(ill("b", "c"))
        await b.counts(2, 0)


async def test_s041_second_resource_is_counted_beside_the_first(sockets: Path) -> None:
    async with bench(sockets) as b:
        await two_of_three(b)
        await b.plugin("x", resource=OTHER)
        assert b.manager.resources() == {GOPHER: ResourceCount(3, 2), OTHER: ResourceCount(1, 1)}


async def test_s042_empty_list_counts_nothing_and_stays_registered(sockets: Path) -> None:
    async with bench(sockets) as b:
        (await two_of_three(b)).send([])
        await b.counts(0, 0)
    assert registered_in_checkpoint(b) == [GOPHER]


async def test_s043_any_other_health_text_is_unhealthy(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a")
        plugin.send_raw(raw_list(("a", "Healthy"), ("b", "healthy"), ("c", ""), ("d", "Healthy ")))
        await b.counts(4, 1)


@pytest.mark.parametrize("healths", [("Healthy", "Unhealthy"), ("Unhealthy", "Healthy")])
async def test_s044_device_listed_twice_counts_once_as_it_is_listed_last(
    sockets: Path, healths: tuple[str, str]
) -> None:
    """A kubelet counts it once per health: capacity 2, allocatable 1."""
    async with bench(sockets) as b:
        plugin = await b.plugin("x", "y")
        plugin.send_raw(raw_list(*(("a", health) for health in healths)))
        await b.counts(1, int(healths[1] == "Healthy"))


async def test_s045_plugin_that_stays_away_has_five_minutes(sockets: Path) -> None:
    """A kubelet notices at its next node status after the time is over; ours tells at once, and once."""
    async with bench(sockets) as b:
        (await b.plugin("a", "b")).end_streams()
        await b.counts(2, 0)
        await b.clock.until_asleep(GRACE_S)
        b.clock.advance(240)
        assert b.manager.resources() == {GOPHER: ResourceCount(2, 0)}
        b.clock.advance(GRACE_S - 240)
        await b.counts(0, 0)
        b.clock.advance(10 * GRACE_S)
        assert b.manager.resources() == {GOPHER: ResourceCount(0, 0)}
    assert registered_in_checkpoint(b) == []


async def test_s046_expired_resource_comes_back_as_new(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        await expired(b, plugin)
        await plugin.register(b.paths.registration_socket)
        await b.counts(2, 2)
        await b.admit(pod("p"))
    assert registered_in_checkpoint(b) == [GOPHER]


async def expired(b: Bench, plugin: FakePlugin) -> None:
    """The plugin has gone and did not come back in time."""
    plugin.end_streams()
    await b.clock.sleep_through(GRACE_S)
    await b.counts(0, 0)


async def test_s047_calls_to_a_stopped_plugin_fail_without_reaching_it(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b", options=ALL_OPTIONS)
        await b.admit(pod("p"))
        plugin.end_streams()
        await b.counts(2, 0)
        before = list(plugin.calls)
        with pytest.raises(AdmissionError, match=r": endpoint .* has been stopped$"):
            await b.prepare("p")
        assert "no healthy devices" in await rejection(b.manager, pod("q"))
        assert plugin.calls == before


async def test_s048_resource_of_before_a_restart_counts_nothing_and_goes_after_five_minutes(sockets: Path) -> None:
    clock = SleepersClock()
    async with bench(sockets, clock=clock) as b:
        await b.plugin("a", "b")
    async with bench(sockets, clock=clock) as b:
        assert b.manager.resources() == {GOPHER: ResourceCount(0, 0)}
        assert "no healthy devices present" in await rejection(b.manager, pod("p"))
        await clock.sleep_through(GRACE_S)
        await b.until(lambda: isinstance(b.manager.snapshot().resources[0].endpoint, Expired))
        assert "cannot allocate unregistered device" in await rejection(b.manager, pod("p"))
    assert registered_in_checkpoint(b) == []


async def test_s049_devices_without_an_endpoint_cannot_be(sockets: Path) -> None:
    """A kubelet has sets that may disagree and cleans up; ours has one table, gone with its endpoint."""
    clock = SleepersClock()
    async with bench(sockets, clock=clock) as b:
        plugin = await b.plugin("a", "b")
        await b.admit(pod("p"))
        await expired(b, plugin)
    async with bench(sockets, clock=clock) as b:  # named by an assignment only
        (resource,) = b.manager.snapshot().resources
        assert (resource.count, resource.endpoint) == (ResourceCount(0, 0), Expired())
        assert [(device.id, device.health) for device in resource.devices] == [("a", "Unknown")]
        assert "cannot allocate unregistered device" in await rejection(b.manager, pod("q"))


async def test_s050_of_a_thousand_lists_the_last_one_decides(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("d0")
        seen: set[ResourceCount] = set()

        async def query() -> None:
            async for _ in b.manager.changes():
                seen.add(b.manager.resources()[GOPHER])

        async with asyncio.TaskGroup() as tasks:
            querying = tasks.create_task(query())
            for size in range(1, 1001):
                plugin.send([*listed(f"d{number}" for number in range(size % 10)), *ill("ill")])
            plugin.send([*listed(["last", "d1"]), *ill("ill", "worse")])
            await b.counts(4, 2)
            querying.cancel()
        assert seen <= {ResourceCount(size + 1, size) for size in range(10)} | {
            ResourceCount(1, 1),
            ResourceCount(4, 2),
        }
        assert isinstance(b.manager.snapshot().resources[0].endpoint, Live)
