"""Pods and their sandboxes: made before containers, removed after them, and host ports that pods cannot share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import SandboxFailed
from plugbay.model.ids import PodUid
from plugbay.model.pods import RestartPolicy
from plugbay.model.ports import ContainerPort, Protocol
from plugbay.model.requests import ContainerKind
from plugbay.pods.scheduling.predicates import HostPorts
from plugbay.pods.status import PodPhase, pod_status
from plugbay.runtimes.sandboxes import Network, SandboxSpec
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.pod_values import container, is_in, pod, runs
from tests.container_specs import sandbox_spec


class MemorySandboxes:
    """Sandboxes that are nothing; ``refusals`` and ``stays`` are raised by the next calls, one each."""

    def __init__(self, node: FakeNode) -> None:
        self._node = node
        self.there: dict[PodUid, SandboxSpec] = {}
        self.refusals: list[SandboxFailed] = []
        self.stays: list[SandboxFailed] = []
        self.removed_while_running = False
        self.ips: tuple[str, ...] = ("10.0.0.5", "fd00::5")

    async def run(self, spec: SandboxSpec) -> tuple[str, ...]:
        if self.refusals:
            raise self.refusals.pop(0)
        self.there[spec.pod.uid] = spec
        return self.ips

    async def stop(self, pod: PodUid) -> None:
        await self.remove(pod)

    async def remove(self, pod: PodUid) -> None:
        if self.stays:
            raise self.stays.pop(0)
        self.removed_while_running |= bool(self._node.runtime.running())
        self.there.pop(pod, None)
        self._node.moved.notify()

    async def pods(self) -> frozenset[PodUid]:
        return frozenset(self.there)


@pytest.fixture
def world(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


@pytest.fixture
def sandboxes(world: FakeNode) -> MemorySandboxes:
    made = MemorySandboxes(world)
    world.sandboxes = made
    return made


async def test_a_sandbox_lives_as_long_as_the_pod_and_gives_it_its_addresses(
    world: FakeNode, sandboxes: MemorySandboxes
) -> None:
    port = ContainerPort(80, 8080)
    wanted = pod(container("c", ports=(port,)), policy=RestartPolicy.NEVER, host_network=True, runtime_class="fast")
    async with world.engine() as engine:
        await engine.create(replace(wanted, annotations={"a": "b"}))
        record = await world.until(is_in(PodPhase.RUNNING))
        spec = sandboxes.there[record.uid]
        assert (spec.network, spec.ports, spec.pod.spec.runtime_class) == (Network.HOST, (port,), "fast")
        assert spec.pod == record.pod
        status = pod_status(record, runtime="fake")
        assert (status["podIP"], status["podIPs"]) == ("10.0.0.5", [{"ip": "10.0.0.5"}, {"ip": "fd00::5"}])
        world.runtime.finish("p_c_0", 0)
        await world.until(is_in(PodPhase.SUCCEEDED))
        assert sandboxes.there == {}
        assert not sandboxes.removed_while_running


async def test_a_sandbox_that_cannot_be_made_is_tried_again(world: FakeNode, sandboxes: MemorySandboxes) -> None:
    sandboxes.refusals = [SandboxFailed("no network"), SandboxFailed("no network")]
    async with world.engine() as engine:
        await engine.create(pod())
        for tries in (1, 2):
            await world.when(lambda tries=tries: len(world.clock.naps) == tries)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            assert world.runtime.started == []
            world.clock.advance(30)
        await world.until(runs(0))
        messages = [event.message for event in world.events if event.reason == "FailedCreatePodSandBox"]
        assert messages == ["Failed to create pod sandbox: no network"]


async def test_addresses_are_those_of_a_sandbox_that_took_another_ones_place(
    world: FakeNode, sandboxes: MemorySandboxes
) -> None:
    async with world.engine() as engine:
        await engine.create(pod())
        await world.until(runs(0))
        sandboxes.ips = ("10.0.0.6",)
        world.runtime.finish("p_c_0", 1)
        record = await world.until(runs(1))
        assert pod_status(record, runtime="fake")["podIPs"] == [{"ip": "10.0.0.6"}]


async def test_a_sandbox_that_cannot_be_replaced_is_tried_again(world: FakeNode, sandboxes: MemorySandboxes) -> None:
    async with world.engine() as engine:
        await engine.create(pod())
        await world.until(runs(0))
        assert is_ready_to_start(world) == "True"
        sandboxes.refusals = [SandboxFailed("no network"), SandboxFailed("no network")]
        world.runtime.finish("p_c_0", 1)
        await world.when(lambda: is_ready_to_start(world) == "False")
        await world.when(lambda: 10.0 in world.clock.naps)
        world.clock.advance(30)
        await world.until(runs(1))
        assert is_ready_to_start(world) == "True"
        assert "FailedCreatePodSandBox" in [event.reason for event in world.events]


def is_ready_to_start(world: FakeNode) -> str:
    """The condition of its one pod."""
    [record] = world.pods
    conditions: Any = pod_status(record, runtime="fake")["conditions"]
    assert conditions[0]["type"] == "PodReadyToStartContainers"
    return str(conditions[0]["status"])


async def test_a_sandbox_that_stays_keeps_the_pod_until_it_is_gone(world: FakeNode, sandboxes: MemorySandboxes) -> None:
    async with world.engine() as engine:
        await engine.create(pod())
        await world.until(runs(0))
        sandboxes.stays = [SandboxFailed("busy")]
        await engine.delete("default", "p")
        await world.when(lambda: any(event.reason == "FailedKillPod" for event in world.events))
        assert [record.pod.name for record in world.pods] == ["p"]
        world.clock.advance(30)
        await world.when(lambda: not list(world.pods))
        assert sandboxes.there == {}


async def test_sandboxes_of_pods_that_are_no_more_are_removed_at_the_next_start(
    world: FakeNode, sandboxes: MemorySandboxes
) -> None:
    sandboxes.there[PodUid("gone")] = sandbox_spec(PodUid("gone"), "default", "gone")
    async with world.engine():
        await world.when(lambda: not sandboxes.there)


async def test_an_unknown_runtime_class_is_refused_in_the_kubelets_words(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(pod(runtime_class="kata"))
        await world.when(lambda: any(event.reason == "FailedCreatePodSandBox" for event in world.events))
        assert [event.message for event in world.events if event.type.value == "Warning"] == [
            'Failed to create pod sandbox: runtimeclass.node.k8s.io "kata" not found'
        ]


# --- host ports ----------------------------------------------------------------------------------------------------

NO_PORTS = "node(s) didn't have free ports for the requested pod ports"


async def test_a_pod_waits_for_a_port_of_the_host(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(pod(container("c", ports=(ContainerPort(80, 8080),)), name="first"))
        await world.until(is_in(PodPhase.RUNNING), "first")
        await engine.create(pod(container("c", ports=(ContainerPort(81, 8080, host_ip="127.0.0.1"),)), name="second"))
        record = await world.until(lambda record: record.unschedulable, "second")
        assert record.unschedulable.startswith(f"0/1 nodes are available: 1 {NO_PORTS}. ")
        await engine.create(pod(container("c", ports=(ContainerPort(80, 8080, Protocol.UDP),)), name="third"))
        await world.until(is_in(PodPhase.RUNNING), "third")
        await engine.delete("default", "first")
        await world.until(is_in(PodPhase.RUNNING), "second")


async def test_a_pod_that_came_past_the_scheduler_is_rejected_for_its_port(world: FakeNode) -> None:
    async with world.engine() as engine:
        taken = container("c", ports=(ContainerPort(80, 8080),))
        await engine.create(pod(taken, name="first"))
        await world.until(is_in(PodPhase.RUNNING), "first")
        await engine.create(pod(taken, name="second", node_name="n1"))
        record = await world.until(is_in(PodPhase.FAILED), "second")
        assert record.rejection is not None
        assert record.rejection.reason == "NodePorts"
        assert record.rejection.message == f"Predicate NodePorts failed: {NO_PORTS}"


def test_ports_count_as_long_as_their_pod_and_not_for_init_containers() -> None:
    ports = HostPorts()
    init = container("i", ContainerKind.INIT, ports=(ContainerPort(1, 1),))
    one = replace(pod(init, container("c", ports=(ContainerPort(2, 2), ContainerPort(2, 2)))), uid=PodUid("1"))
    other = replace(one, uid=PodUid("2"))
    ports.add(one)
    assert ports.are_free(one)
    assert not ports.are_free(other)
    assert ports.are_free(replace(pod(init, container("c")), uid=PodUid("3")))
    ports.remove(PodUid("1"))
    assert ports.are_free(other)
