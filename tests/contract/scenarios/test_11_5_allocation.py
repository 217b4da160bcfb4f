"""Spec 11.5: devices for plain containers, refusals, and what is left of them."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path

from plugbay.errors import RpcCode
from plugbay.kubelet.checkpoint import load
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.health import unhealthy
from plugbay.ops.http_client import UnixHttpClient
from plugbay.ops.listening import UnixAddress
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin, refusing
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Service, Unary
from plugbay.wire.plugin_server import device_plugin_handler
from tests.contract.rigs import scenario_nodes
from tests.contract.rigs.manager import (
    APP,
    GOPHER,
    OTHER,
    Bench,
    Gate,
    bench,
    container,
    listed,
    never,
    pod,
    rejection,
)
from tests.contract.rigs.scenario_nodes import Node, node

TOO_FEW = "requested number of devices unavailable for example.com/gopher. Requested: {}, Available: {}"


async def test_s051_each_resource_is_allocated_in_one_call(sockets: Path) -> None:
    async with bench(sockets) as b:
        gopher, other = await gopher_and_other(b)
        assert (gopher.allocated, other.allocated) == ([("a", "b")], [("x",)])
        assert b.edits("p") == ContainerEdits(env={"GOPHERS": "a,b", "OTHERS": "x"})


async def gopher_and_other(b: Bench) -> tuple[FakePlugin, FakePlugin]:
    """Two plugins, all of whose devices a pod ``p`` holds."""
    gopher, other = await b.plugin("a", "b"), await b.plugin("x", resource=OTHER)
    for plugin, name in ((gopher, "GOPHERS"), (other, "OTHERS")):

        async def answer(devices: object, name: str = name) -> ContainerEdits:
            assert isinstance(devices, tuple)
            return ContainerEdits(env={name: ",".join(devices)})

        plugin.allocate_answer = answer
    await b.admit(pod("p", container("app", gopher=2, other=1)))
    return gopher, other


async def test_s052_pod_that_wants_more_than_is_free_is_refused(sockets: Path) -> None:
    async with bench(sockets) as b:
        await gopher_and_other(b)
        assert await rejection(b.manager, pod("q")) == TOO_FEW.format(1, 0)


async def test_s053_devices_of_an_ended_pod_are_free(sockets: Path) -> None:
    async with bench(sockets) as b:
        await gopher_and_other(b)
        await b.release("p")
        await b.admit(pod("q", gopher=2))
        assert b.gophers_of("q") == {"app": {"a", "b"}}


async def test_s054_unknown_resource_refuses_the_pod(sockets: Path) -> None:
    """A kubelet admits it silently, and it runs without its device."""
    async with bench(sockets) as b:
        assert await rejection(b.manager, pod("p")) == f"cannot allocate unregistered device {GOPHER}"


async def test_s055_limit_of_zero_calls_nobody(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", options=PluginOptions(pre_start_required=True))
        await b.admit(pod("p", gopher=0))
        assert await b.prepare("p") == ContainerEdits()
        assert plugin.calls == ["GetDevicePluginOptions", "ListAndWatch"]


async def test_s056_limit_of_zero_is_refused_where_nothing_is_healthy(sockets: Path) -> None:
    async with bench(sockets) as b:
        (await b.plugin("a")).send([Device("a", health=unhealthy("hot"))])
        await b.counts(1, 0)
        assert await rejection(b.manager, pod("p", gopher=0)) == (
            f"no healthy devices present; cannot allocate unhealthy devices {GOPHER}"
        )


async def test_s057_failing_allocate_fails_the_pod_and_frees_its_devices(sockets: Path) -> None:
    async with node(sockets / "node", "p", "q") as n, scenario_nodes.plugin(n, "a") as plugin:
        works, plugin.allocate_answer = plugin.allocate_answer, refusing(RpcCode.INTERNAL, "boom")
        await n.create(scenario_nodes.pod("p"))
        status = (await n.in_phase("p", "Failed"))["status"]
        assert status["reason"] == "UnexpectedAdmissionError"
        assert status["message"] == (
            "Pod was rejected: Allocate failed due to rpc error: code = Internal desc = boom, which is unexpected"
        )
        plugin.allocate_answer = works
        await n.create(scenario_nodes.pod("q"))
        await n.in_phase("q", "Running")


async def test_s058_answer_without_container_responses_refuses_the_pod_and_frees_its_devices(sockets: Path) -> None:
    """A kubelet 1.36 blocks the devices until something else makes it count again."""
    async with bench(sockets) as b:
        plugin = await b.plugin("a")

        async def nothing(_: object) -> None:
            return None

        works, plugin.allocate_answer = plugin.allocate_answer, nothing
        assert await rejection(b.manager, pod("p")) == "no containers return in allocation response "
        plugin.allocate_answer = works
        await b.admit(pod("q"))


async def test_s059_of_two_container_responses_the_first_counts(sockets: Path) -> None:
    async def allocate(_: bytes) -> bytes:
        envs = ({"WHO": "first"}, {"WHO": "second", "MORE": "yes"})
        responses = [pb.ContainerAllocateResponse(envs=env) for env in envs]
        return pb.AllocateResponse(container_responses=responses).SerializeToString()

    async with bench(sockets) as b:
        plugin = FakePlugin(GOPHER, b.at("p.sock"), listed("a"), PluginOptions())
        service = device_plugin_handler(plugin)
        twice = Service(service.name, {**service.methods, "Allocate": Unary(allocate)})
        async with serve_grpc(plugin.socket, [twice]):
            await plugin.register(b.paths.registration_socket)
            await b.counts(1, 1)
            await b.admit(pod("p"))
            assert b.edits("p") == ContainerEdits(env={"WHO": "first"})


async def test_s060_plugin_that_dies_while_asked_refuses_the_pod(sockets: Path) -> None:
    async with bench(sockets) as b, AsyncExitStack() as life:
        plugin = await life.enter_async_context(fake_plugin(GOPHER, b.at("p.sock"), listed("a")))
        await plugin.register(b.paths.registration_socket)
        await b.counts(1, 1)
        plugin.allocate_answer = call = Gate(never)
        async with asyncio.TaskGroup() as tasks:
            refused = tasks.create_task(rejection(b.manager, pod("p")))
            await call.entered.wait()
            await life.aclose()
        # Whether the call or the stream is seen to break first is chance.
        assert re.match(r"rpc error: code = (Unavailable|Canceled) desc = .", refused.result())
        assert b.manager.assigned_pods() == frozenset()


async def test_s061_hanging_allocate_holds_up_only_its_own_resource(sockets: Path) -> None:
    """On a kubelet no pod is admitted meanwhile, not even one without devices (#117435)."""
    async with node(sockets / "node", "stuck", "plain", "other") as n:
        async with scenario_nodes.plugin(n, "a") as gopher, scenario_nodes.plugin(n, "x", socket="o", resource=OTHER):
            gopher.allocate_answer = call = Gate(never)
            await n.create(scenario_nodes.pod("stuck"))
            await call.entered.wait()
            await n.create(scenario_nodes.pod("plain", limits={}))
            await n.create(scenario_nodes.pod("other", limits={OTHER: "1"}))
            await n.in_phase("plain", "Running")
            await n.in_phase("other", "Running")
            await n.in_phase("stuck", "Pending")


async def test_s062_container_that_has_its_devices_is_left_alone(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        await b.admit(pod("p"), pod("p"))
        assert plugin.allocated == [("a",)]
        assert b.gophers_of("p") == {"app": {"a"}}


async def test_s063_changed_request_is_refused(sockets: Path) -> None:
    async with bench(sockets) as b:
        await b.plugin("a", "b")
        await b.admit(pod("p"))
        assert await rejection(b.manager, pod("p", gopher=2)) == (
            'pod "p" container "app" changed request for resource "example.com/gopher" from 1 to 2'
        )


async def test_s064_held_device_that_is_unhealthy_is_refused(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        await b.admit(pod("p"))
        plugin.send([Device("a", health=unhealthy("hot")), Device("b")])
        await b.counts(2, 1)
        assert await rejection(b.manager, pod("p")) == (
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {GOPHER}"
        )


async def test_s065_expired_resource_that_is_still_held_counts_as_unregistered(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        await b.admit(pod("p"))
        plugin.end_streams()
        await b.clock.sleep_through(300)
        await b.counts(0, 0)
        assert await rejection(b.manager, pod("q")) == f"cannot allocate unregistered device {GOPHER}"


async def test_s066_pod_that_is_refused_one_resource_keeps_none(sockets: Path) -> None:
    """A kubelet keeps the first resource's assignment in memory until it cleans up; the file never has it."""
    async with bench(sockets) as b:
        gopher = await b.plugin("a")
        other = await b.plugin("x", resource=OTHER)
        other.allocate_answer = refusing(RpcCode.INTERNAL, "boom")
        await rejection(b.manager, pod("p", container("app", gopher=1, other=1)))
        assert gopher.allocated == [("a",)]
        assert b.manager.assigned_pods() == frozenset()
        await b.admit(pod("q"))
    entries = load(b.paths.checkpoint.read_bytes(), source="test").pod_device_entries or ()
    assert [(entry.pod_uid, entry.resource_name) for entry in entries] == [("q", GOPHER)]


async def test_s067_container_whose_limit_is_served_by_dra_is_left_alone(sockets: Path) -> None:
    """Whoever turns a pod into a request leaves such a limit out, for that container only; nothing here does yet."""
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        await b.admit(pod("p", container("dra"), container("app", gopher=1)))
        assert plugin.allocated == [("a",)]
        assert set(b.held("p")) == {APP}


async def test_s068_waiting_pods_are_served_in_order_of_creation(sockets: Path) -> None:
    async with node(sockets / "node", "b", "a") as n:
        for name in ("b", "a"):
            await n.create(scenario_nodes.pod(name))
            await n.event(name, "FailedScheduling")
        async with scenario_nodes.plugin(n, "1", "2"):
            for name in ("b", "a"):
                await n.in_phase(name, "Running")
            assert await n.devices() == {"1": "b", "2": "a"}


async def test_s069_refused_pod_has_its_event_and_is_counted(sockets: Path) -> None:
    pages = UnixAddress(sockets / "pages.sock")
    async with node(sockets / "node", "first", "p", metrics=pages) as n, scenario_nodes.plugin(n, "a", "b"):
        await holding_one(n)
        metrics = UnixHttpClient(pages.path, timeout_s=20)
        before = await asyncio.to_thread(metrics.request, "GET", "/metrics")
        assert b"kubelet_admission_rejections_total" not in before.body
        await n.create(scenario_nodes.pod("p", limits={scenario_nodes.RESOURCE: "2"}, nodeName="n1"))
        event = await n.event("p", "UnexpectedAdmissionError")
        assert event["type"] == "Warning"
        assert event["message"] == f"Allocate failed due to {TOO_FEW.format(2, 1)}, which is unexpected"
        counted = b'kubelet_admission_rejections_total{reason="UnexpectedAdmissionError"} 1\n'
        async with asyncio.timeout(20):
            after = before
            while counted not in after.body:  # a page is kept for a second
                await asyncio.sleep(0.1)
                after = await asyncio.to_thread(metrics.request, "GET", "/metrics")


async def test_s070_devices_of_a_pod_refused_after_its_allocate_are_free(sockets: Path) -> None:
    """On a kubelet only after the next clean-up."""
    async with node(sockets / "node", "first", "p") as n, scenario_nodes.plugin(n, "a", "b") as plugin:
        await holding_one(n)
        await n.create(scenario_nodes.pod("p", limits={scenario_nodes.RESOURCE: "1", "cpu": "10000"}, nodeName="n1"))
        failed = await n.in_phase("p", "Failed")
        assert failed["status"]["reason"] == "OutOfcpu"
        assert plugin.allocated == [("a",), ("b",)]
        assert await n.devices() == {"a": "first", "b": None}


async def holding_one(at: Node) -> None:
    """A pod that had to wait for the devices: pods that name their node do not."""
    await at.create(scenario_nodes.pod("first"))
    await at.in_phase("first", "Running")
