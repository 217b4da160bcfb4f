"""Faults between the manager and its plugins, switched while it runs, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.ops.clock import SystemClock
from plugbay.testing.fakes.plugin import fake_plugin
from plugbay.testing.fakes.watched_plugin import fake_watched_plugin
from plugbay.testing.traffic.faults import FaultSwitches
from plugbay.testing.traffic.transport import DisturbedTransport
from plugbay.traffic.recorder import TrafficRecorder
from plugbay.traffic.records import Party, TrafficEvent
from tests.contract.rigs.manager import DEADLINE_S, GOPHER, OTHER, Bench, bench, listed, pod, rejection

END = TrafficEvent.END
ANSWERED_S = 5.0
"""A deadline that the test lets pass; a call that is answered, as the one for the options, does not reach it."""


class Disturbed:
    """A manager whose traffic is recorded and can be disturbed."""

    def __init__(self, transport: DisturbedTransport, around: Bench) -> None:
        self.faults = transport.switches
        self.recorder = transport.recorder
        self.around = around

    def codes(self, method: str) -> list[RpcCode | None]:
        """How the calls of a method have ended."""
        ends = self.recorder.of(method, event=END)
        return [None if end.failure is None else end.failure.code for end in ends]

    async def ended(self, method: str) -> None:
        """Wait until a call of a method has ended."""
        await self.recorder.until(lambda it: it.name == method and it.event is END, timeout_s=DEADLINE_S)


@asynccontextmanager
async def disturbed(root: Path, **settings: Any) -> AsyncIterator[Disturbed]:
    transport = DisturbedTransport(TrafficRecorder(SystemClock()), FaultSwitches())
    async with bench(root, transport=transport, **settings) as around:
        yield Disturbed(transport, around)


async def test_everything_that_passes_is_recorded(sockets: Path) -> None:
    async with disturbed(sockets) as bed:
        await bed.around.plugin("g1", "g2")
        await bed.around.admit(pod("p1"))
        told = [(it.event.value, it.sender.value, it.name) for it in bed.recorder.records]
    assert told[:8] == [
        ("request", "plugin", "Register"),
        ("connected", "kubelet", ""),
        ("request", "kubelet", "GetDevicePluginOptions"),
        ("answer", "plugin", "GetDevicePluginOptions"),
        ("end", "plugin", "GetDevicePluginOptions"),
        ("answer", "kubelet", "Register"),
        ("end", "kubelet", "Register"),
        ("request", "kubelet", "ListAndWatch"),
    ]
    assert told[8:] == [
        ("answer", "plugin", "ListAndWatch"),
        ("request", "kubelet", "Allocate"),
        ("answer", "plugin", "Allocate"),
        ("end", "plugin", "Allocate"),
    ]
    assert {it.resource for it in bed.recorder.records} == {GOPHER}
    [allocate] = bed.recorder.of("Allocate")
    assert allocate.value == {"container_requests": [{"devices_ids": ["g1"]}]}
    assert [it.at_s for it in bed.recorder.records] == sorted(it.at_s for it in bed.recorder.records)


async def test_end_of_the_manager_closes_recorded_connections(sockets: Path) -> None:
    socket = sockets / "device-plugins" / "g.sock"
    socket.parent.mkdir()
    async with AsyncExitStack() as outside:
        async with disturbed(sockets) as bed:
            plugin = await outside.enter_async_context(fake_plugin(GOPHER, socket, listed(["g1"])))
            await plugin.register(bed.around.paths.registration_socket)
            await bed.around.counts(1, 1)
    assert [it.event for it in list(bed.recorder.records)[-2:]] == [END, TrafficEvent.CLOSED]
    assert bed.codes("ListAndWatch") == [RpcCode.CANCELLED]
    assert bed.recorder.of("ListAndWatch", event=END)[0].sender is Party.KUBELET


async def test_delayed_request_arrives_later(sockets: Path) -> None:
    async with disturbed(sockets) as bed:
        plugin = await bed.around.plugin("g1", "g2")
        delay = bed.faults.delay(0.2, method="Allocate", times=1)
        began = asyncio.get_running_loop().time()
        await bed.around.admit(pod("p1"))
        assert asyncio.get_running_loop().time() - began >= 0.2
        await bed.around.admit(pod("p2"))
        assert (delay.used, delay.left, len(plugin.allocated)) == (1, 0, 2)


async def test_hanging_call_goes_on_when_the_switch_is_off(sockets: Path) -> None:
    async with disturbed(sockets) as bed, asyncio.TaskGroup() as tasks:
        plugin = await bed.around.plugin("g1")
        hang = bed.faults.hang(method="Allocate", times=1)
        admission = tasks.create_task(bed.around.admit(pod("p1")))
        await hang.until_used(timeout_s=DEADLINE_S)
        assert plugin.allocated == []
        hang.off()
        await admission
        assert plugin.allocated == [("g1",)]


async def test_hanging_call_ends_at_its_deadline_and_never_reaches_the_plugin(sockets: Path) -> None:
    async with disturbed(sockets, call_timeout_s=ANSWERED_S) as bed:
        bed.faults.hang(method="Allocate")
        plugin = await bed.around.plugin("g1")
        assert "code = DeadlineExceeded" in await rejection(bed.around.manager, pod("p1"))
        assert plugin.allocated == []
        assert bed.codes("Allocate") == [RpcCode.DEADLINE_EXCEEDED]


async def test_answer_that_is_dropped_was_given_by_the_plugin(sockets: Path) -> None:
    async with disturbed(sockets) as bed, asyncio.TaskGroup() as tasks:
        plugin = await bed.around.plugin("g1")
        drop = bed.faults.drop(method="Allocate", times=1)
        admission = tasks.create_task(rejection(bed.around.manager, pod("p1")))
        await drop.until_used(timeout_s=DEADLINE_S)
        assert plugin.allocated == [("g1",)]
        assert not admission.done()
        plugin.end_streams()  # the call ends with the plugin's connection, long before its deadline
        assert "rpc error: code = " in await admission


async def test_dropped_list_is_lost_and_the_next_one_arrives(sockets: Path) -> None:
    async with disturbed(sockets) as bed:
        plugin = await bed.around.plugin("g1")
        drop = bed.faults.drop(method="ListAndWatch", times=1)
        plugin.send(listed(["g1", "g2"]))
        await drop.until_used(timeout_s=DEADLINE_S)
        plugin.send(listed(["g1", "g2", "g3"]))
        await bed.around.counts(3, 3)


async def test_stream_under_way_is_reset_at_once(sockets: Path) -> None:
    async with disturbed(sockets) as bed:
        plugin = await bed.around.plugin("g1")
        reset = bed.faults.reset(method="ListAndWatch")
        assert reset.used == 1
        await plugin.until_unwatched()
        await bed.around.counts(1, 0)
        assert bed.codes("ListAndWatch") == [RpcCode.INTERNAL]
        await plugin.register(bed.around.paths.registration_socket)
        await bed.around.counts(1, 1)


async def test_call_is_reset_in_place_of_its_answer(sockets: Path) -> None:
    async with disturbed(sockets) as bed:
        plugin = await bed.around.plugin("g1")
        bed.faults.reset(method="Allocate")
        refusal = await rejection(bed.around.manager, pod("p1"))
        assert "stream terminated by RST_STREAM with error code: INTERNAL_ERROR" in refusal
        assert plugin.allocated == [("g1",)]
        await bed.around.admit(pod("p2"))


async def test_connection_that_breaks_takes_its_calls_along(sockets: Path) -> None:
    async with disturbed(sockets) as bed, asyncio.TaskGroup() as tasks:
        plugin = await bed.around.plugin("g1")
        hang = bed.faults.hang(method="Allocate")
        admission = tasks.create_task(rejection(bed.around.manager, pod("p1")))
        await hang.until_used(timeout_s=DEADLINE_S)
        bed.faults.reset_connection(method="ListAndWatch")
        await plugin.until_unwatched()
        assert "error reading from server: connection reset by peer" in await admission
        await bed.ended("ListAndWatch")
        assert bed.codes("ListAndWatch") == [RpcCode.UNAVAILABLE]


async def test_registration_is_refused_as_often_as_asked(sockets: Path) -> None:
    async with disturbed(sockets) as bed:
        bed.faults.refuse("not today", times=1)
        with pytest.raises(RpcFailed, match="not today"):
            await bed.around.plugin("g1")
        await bed.around.plugin("g1", socket="g2.sock")


async def test_refusal_reaches_a_watched_plugin_too(sockets: Path) -> None:
    async with disturbed(sockets) as bed:
        refusal = bed.faults.refuse("not today")
        device = [Device(DeviceId("g1"))]
        async with fake_watched_plugin(GOPHER, bed.around.hidden, device) as plugin:
            bed.around.show()
            await plugin.until(lambda it: bool(it.statuses))
            assert plugin.statuses[0].error.endswith("not today")
            refusal.off()


async def test_fault_of_one_resource_spares_the_others(sockets: Path) -> None:
    async with disturbed(sockets) as bed:
        gopher = await bed.around.plugin("g1")
        await bed.around.plugin("o1", resource=OTHER)
        bed.faults.reset(resource=GOPHER, times=None)
        await gopher.until_unwatched()
        await bed.around.counts(1, 1, resource=OTHER)


async def test_plugin_waits_for_the_answer_to_its_registration(sockets: Path) -> None:
    async with disturbed(sockets) as bed, asyncio.TaskGroup() as tasks:
        hang = bed.faults.hang(method="Register", times=1)
        registration = tasks.create_task(bed.around.plugin("g1"))
        await hang.until_used(timeout_s=DEADLINE_S)
        assert not bed.around.manager.resources()
        hang.off()
        await registration


async def test_fields_that_are_newer_than_the_kubelet_are_stripped(sockets: Path) -> None:
    async def answer(_: object) -> ContainerEdits:
        return ContainerEdits(env={"A": "1"}, cdi_devices=("example.com/gopher=g1",))

    async with disturbed(sockets) as bed:
        strip = bed.faults.strip_newer((1, 28))
        plugin = await bed.around.plugin("g1", "g2", options=PluginOptions(deallocate_required=True))
        plugin.allocate_answer = answer
        await bed.around.admit(pod("p1"))
        assert bed.around.edits("p1") == ContainerEdits(env={"A": "1"})
        endpoint = bed.around.manager.endpoints.active(GOPHER)
        assert endpoint is not None
        assert endpoint.options == PluginOptions()
        strip.off()
        await bed.around.admit(pod("p2"))
        assert bed.around.edits("p2").cdi_devices
