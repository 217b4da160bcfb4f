"""Spec 11.7: what a plugin is asked before devices are chosen, and what its answer is worth."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from plugbay.allocation.choose import Plan, Preference, plan, settle
from plugbay.allocation.table import DeviceTable
from plugbay.errors import RpcCode
from plugbay.kubelet.podresources import PodResourcesClient
from plugbay.manager.serving.podresources import serve_pod_resources
from plugbay.model.devices import ListedDevice, PluginOptions
from plugbay.model.ids import DeviceId
from plugbay.model.requests import ContainerKind
from plugbay.testing.fakes.plugin import FakePlugin, refusing
from plugbay.wire.plugin_server import PreferenceRequest
from tests.contract.rigs.manager import GOPHER, Bench, Gate, bench, container, pod, rejection

NODE_0 = 0b1


def preferring(*ids: str) -> Callable[[object], Awaitable[list[DeviceId]]]:
    async def answer(_: object) -> list[DeviceId]:
        return [DeviceId(each) for each in ids]

    return answer


async def asked(b: Bench, *devices: str) -> FakePlugin:
    """A registered plugin that wants to be asked."""
    return await b.plugin(*devices, options=PluginOptions(get_preferred_allocation_available=True))


def ids(letters: str) -> tuple[DeviceId, ...]:
    """Device IDs of one letter each."""
    return tuple(map(DeviceId, letters))


def question(available: str, size: int, *, must_include: str = "") -> PreferenceRequest:
    return PreferenceRequest(ids(available), ids(must_include), size)


async def test_s077_plugin_that_does_not_offer_it_is_not_asked(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        await b.admit(pod("p"))
        assert plugin.calls == ["GetDevicePluginOptions", "ListAndWatch", "Allocate"]


async def test_s078_all_free_devices_are_offered_and_the_answer_is_taken(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await asked(b, *"abcd")
        plugin.prefer_answer = preferring("d", "b")
        await b.admit(pod("p", gopher=2))
        assert plugin.preferred == [question("abcd", 2)]
        assert b.gophers_of("p") == {"app": {"b", "d"}}


async def test_s079_plugin_is_asked_even_if_every_free_device_is_wanted(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await asked(b, "a", "b")
        await b.admit(pod("p", gopher=2))
        assert plugin.preferred == [question("ab", 2)]


async def test_s080_answer_that_is_too_short_is_filled_up(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await asked(b, *"abcd")
        plugin.prefer_answer = preferring("d")
        await b.admit(pod("p", gopher=2))
        assert b.gophers_of("p") == {"app": {"a", "d"}}


async def test_s081_unknown_and_used_devices_in_the_answer_are_passed_over(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await asked(b, *"abcd")
        await b.admit(pod("p"))
        plugin.prefer_answer = preferring("a", "nonsense", "")
        await b.admit(pod("q", gopher=2))
        assert b.gophers_of("q") == {"app": {"b", "c"}}


async def test_s082_devices_to_use_again_must_be_included(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await asked(b, *"abcde")
        plugin.prefer_answer = preferring("a", "b", "e")
        init = container("init", ContainerKind.INIT, gopher=2)
        await b.admit(pod("p", init, container("app", gopher=3)))
        assert plugin.preferred == [question("abcde", 2), question("abcde", 3, must_include="ab")]
        assert b.gophers_of("p") == {"init": {"a", "b"}, "app": {"a", "b", "e"}}


def planned(required: int, *, reusable: str = "") -> tuple[DeviceTable, Plan]:
    """A choice aligned to NUMA node 0, which has a, b and c; node 1 has x and y.

    The mask is the topology manager's answer, so these three scenarios begin where the manager would with one.
    """
    devices = [ListedDevice(DeviceId(each), "Healthy", (0 if each in "abc" else 1,)) for each in "abcxy"]
    table = DeviceTable.of(devices)
    claimed = table.set_of(ids(reusable))
    return table, plan(GOPHER, table, claimed=claimed, required=required, reusable=ids(reusable), mask=NODE_0)


def test_s083_enough_aligned_devices_only_they_are_offered() -> None:
    table, half = planned(2)
    assert half.question(table) == Preference(ids("abc"), (), 2)
    assert settle(half, table, claimed=0, preferred=ids("xc")) == ("a", "c")
    table, half = planned(2, reusable="y")
    assert half.question(table) == Preference(ids("abcy"), ids("y"), 2)


def test_s084_too_few_aligned_devices_must_all_be_included() -> None:
    table, half = planned(4)
    assert half.question(table) == Preference(ids("abcxy"), ids("abc"), 4)
    assert settle(half, table, claimed=0, preferred=ids("y")) == ids("abcy")


def test_s085_aligned_devices_that_fit_exactly_leave_nothing_to_ask() -> None:
    table, half = planned(3)
    assert half.question(table) is None
    assert settle(half, table, claimed=0, preferred=()) == ids("abc")


async def test_s086_failing_answer_refuses_the_pod(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await asked(b, "a")
        plugin.prefer_answer = refusing(RpcCode.UNAVAILABLE, "thinking")
        assert await rejection(b.manager, pod("p")) == (
            "device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unavailable desc = thinking"
        )
        assert plugin.allocated == []


async def test_s087_end_of_a_pod_and_a_list_during_the_calls_free_no_pick(sockets: Path) -> None:
    """In kubelet 1.36 the List forgets the picks in flight, and a second pod can get the same device."""
    async with (
        bench(sockets) as b,
        serve_pod_resources(
            b.paths.pod_resources_socket, b.manager.pod_resources(), b.manager.admitted_pods, clock=b.clock
        ),
        PodResourcesClient(b.paths.pod_resources_socket) as client,
    ):
        plugin = await asked(b, *"abc")
        await b.admit(pod("early"), pod("late"))
        for finished, uid, call in (("early", "p", "prefer_answer"), ("late", "q", "allocate_answer")):
            gate = Gate(getattr(plugin, call))
            setattr(plugin, call, gate)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(b.manager.admit(pod(uid)))
                await gate.entered.wait()
                await b.release(finished)
                assert finished not in [each.name for each in await client.list()]
                tasks.create_task(b.manager.admit(pod(f"beside-{uid}")))
                gate.open.set()
            held = b.gophers_of(uid)["app"], b.gophers_of(f"beside-{uid}")["app"]
            assert held[0].isdisjoint(held[1])
            await b.release(f"beside-{uid}")
