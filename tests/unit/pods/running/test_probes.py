"""Probes and what follows from them, on a clock that the test moves; the commands' results are set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from plugbay.model.actions import ExecAction
from plugbay.model.pods import Container, RestartPolicy
from plugbay.model.probes import ContainerProbe, Probes
from plugbay.model.requests import ContainerKind
from plugbay.pods.record import ClientCondition, PodRecord
from plugbay.pods.status import PodPhase, pod_status
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.pod_values import container, is_in, pod, runs

SIDECAR = ContainerKind.SIDECAR


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def asks(command: str, **more: Any) -> ContainerProbe:
    return ContainerProbe(ExecAction((command,)), **more)


def probed(name: str, kind: ContainerKind = ContainerKind.APP, **probes: Any) -> Container:
    return container(name, kind, probes=Probes(**probes))


def status_of(record: PodRecord, name: str) -> Any:
    status: Any = pod_status(record, runtime="fake")
    shown = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return next((each for each in shown if each["name"] == name), {"ready": False})


def is_ready(name: str, expected: bool = True) -> Callable[[PodRecord], bool]:
    return lambda record: status_of(record, name)["ready"] is expected


def condition(record: PodRecord, kind: str) -> Any:
    status: Any = pod_status(record, runtime="fake")
    return next(each for each in status["conditions"] if each["type"] == kind)


def messages(node: FakeNode, reason: str) -> list[str]:
    return [event.message for event in node.events if event.reason == reason]


async def napped(node: FakeNode, seconds: float, times: int = 1) -> None:
    await node.when(lambda: node.clock.naps.count(seconds) >= times)


async def probe(node: FakeNode, seconds: float) -> None:
    """Let time pass until a probe is made, and until its result has been seen."""
    naps = len(node.clock.naps)
    node.clock.advance(seconds)
    await node.when(lambda: len(node.clock.naps) > naps)


async def test_a_container_is_ready_once_its_probe_succeeds_and_no_longer_when_it_fails(node: FakeNode) -> None:
    node.runtime.exec_codes["ask"] = 1
    async with node.engine() as engine:
        await engine.create(pod(probed("a", readiness=asks("ask", period_s=5, failure_threshold=2)), container("b")))
        await node.when(lambda: 5 in node.clock.naps)
        record = await node.until(runs(0, "b"))
        assert (status_of(record, "a")["started"], status_of(record, "a")["ready"]) == (True, False)
        for kind in ("Ready", "ContainersReady"):
            unready = condition(record, kind)
            assert (unready["status"], unready["reason"]) == ("False", "ContainersNotReady")
            assert unready["message"] == "containers with unready status: [a]"
        node.runtime.exec_codes["ask"] = 0
        await probe(node, 5)
        record = await node.until(is_ready("a"))
        assert condition(record, "Ready")["status"] == "True"
        assert condition(record, "Ready")["lastTransitionTime"] == "2026-01-01T00:00:05Z"
        node.runtime.exec_codes["ask"] = 1
        await probe(node, 5)
        assert is_ready("a")(await node.until(runs(0, "a")))
        await probe(node, 5)
        record = await node.until(is_ready("a", False))
        assert status_of(record, "a")["restartCount"] == 0
        assert condition(record, "Ready")["lastTransitionTime"] == "2026-01-01T00:00:15Z"
        assert messages(node, "Unhealthy") == ["Readiness probe failed: "]


async def test_a_readiness_probe_may_have_to_succeed_several_times(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod(probed("a", readiness=asks("ask", period_s=5, success_threshold=2))))
        await node.when(lambda: 5 in node.clock.naps)
        assert not is_ready("a")(await node.until(runs(0, "a")))
        await probe(node, 5)
        await node.until(is_ready("a"))


async def test_the_startup_probe_comes_before_the_others(node: FakeNode) -> None:
    node.runtime.exec_codes["up"] = 1
    probes: dict[str, Any] = {
        "startup": asks("up", period_s=3),
        "liveness": asks("live", period_s=3),
        "readiness": asks("ready"),
    }
    async with node.engine() as engine:
        await engine.create(pod(probed("a", **probes)))
        await node.when(lambda: 3 in node.clock.naps)
        record = await node.until(runs(0, "a"))
        assert (status_of(record, "a")["started"], status_of(record, "a")["ready"]) == (False, False)
        await probe(node, 3)
        assert node.runtime.commands == ["a: up"]
        node.runtime.exec_codes["up"] = 0
        node.clock.advance(3)
        record = await node.until(is_ready("a"))
        assert status_of(record, "a")["started"]
        assert node.runtime.commands == ["a: up", "a: up", "a: ready"]
        await probe(node, 3)
        assert node.runtime.commands.count("a: up") == 2
        assert node.runtime.commands.count("a: live") == 1


async def test_a_container_that_does_not_start_in_time_is_killed(node: FakeNode) -> None:
    node.runtime.exec_codes["up"] = 1
    async with node.engine() as engine:
        await engine.create(pod(probed("a", startup=asks("up", period_s=3, failure_threshold=2, grace_s=7))))
        await node.when(lambda: 3 in node.clock.naps)
        await probe(node, 3)
        node.clock.advance(3)
        record = await node.until(runs(1, "a"))
        assert not status_of(record, "a")["started"]
        assert node.runtime.stopped == [("a", 7)]
        assert messages(node, "Killing") == ["Container a failed startup probe, will be restarted"]


@pytest.mark.parametrize("policy", [RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE])
async def test_a_container_that_is_not_alive_is_started_anew(node: FakeNode, policy: RestartPolicy) -> None:
    """Also one that ends well when it is killed, and that the policy would not start again by itself."""
    async with node.engine() as engine:
        await engine.create(pod(probed("a", liveness=asks("live", period_s=4)), policy=policy))
        await node.when(lambda: 4 in node.clock.naps)
        await probe(node, 4)
        node.runtime.exec_codes["live"] = 1
        await probe(node, 4)
        await probe(node, 4)
        node.clock.advance(4)
        record = await node.until(runs(1, "a"))
        assert node.runtime.stopped == [("a", 30)]
        assert messages(node, "Killing") == ["Container a failed liveness probe, will be restarted"]
        assert messages(node, "Unhealthy") == ["Liveness probe failed: "]
        assert next(event.count for event in node.events if event.reason == "Unhealthy") == 3
        assert status_of(record, "a")["restartCount"] == 1


async def test_a_container_that_is_alive_is_left_alone(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod(probed("a", liveness=asks("live", period_s=4, failure_threshold=1))))
        record = await node.until(runs(0, "a"))
        await node.when(lambda: 4 in node.clock.naps)
        for _ in range(5):
            await probe(node, 4)
        assert node.runtime.commands == ["a: live"] * 5
        assert (node.runtime.started, node.runtime.stopped) == (["a"], [])
        assert status_of(record, "a")["restartCount"] == 0


async def test_every_restart_of_a_container_that_is_never_alive_is_counted(node: FakeNode) -> None:
    node.runtime.exec_codes["live"] = 1
    async with node.engine() as engine:
        await engine.create(pod(probed("a", liveness=asks("live", period_s=1, failure_threshold=1))))
        for restarts, back_off_s in enumerate((0, 10, 20)):
            record = await node.until(runs(restarts, "a"))
            assert status_of(record, "a")["restartCount"] == restarts
            await napped(node, 1, times=restarts + 1)
            node.clock.advance(1)
            if back_off_s:
                await napped(node, back_off_s)
                node.clock.advance(back_off_s)


async def test_a_pod_that_never_restarts_ends_with_its_liveness(node: FakeNode) -> None:
    node.runtime.exec_codes["live"] = 1
    node.runtime.deaf = {"a"}
    liveness = asks("live", period_s=4, failure_threshold=1)
    async with node.engine() as engine:
        await engine.create(pod(probed("a", liveness=liveness), policy=RestartPolicy.NEVER))
        await node.when(lambda: 4 in node.clock.naps)
        await probe(node, 4)
        node.clock.advance(30)
        await node.until(is_in(PodPhase.FAILED))
        assert messages(node, "Killing") == ["Container a failed liveness probe"]


async def test_no_probe_is_made_during_the_initial_delay(node: FakeNode) -> None:
    probes: dict[str, Any] = {
        "liveness": asks("live", period_s=4, initial_delay_s=10),
        "readiness": asks("ready", period_s=4, initial_delay_s=9),
    }
    async with node.engine() as engine:
        await engine.create(pod(probed("a", **probes)))
        await node.when(lambda: node.clock.naps == [12, 12])
        assert node.runtime.commands == []
        node.clock.advance(12)
        await node.until(is_ready("a"))
        assert sorted(node.runtime.commands) == ["a: live", "a: ready"]


async def test_what_comes_after_a_sidecar_waits_for_its_startup_probe(node: FakeNode) -> None:
    node.runtime.exec_codes["up"] = 1
    async with node.engine() as engine:
        sidecar = probed("s", SIDECAR, startup=asks("up", period_s=3), liveness=asks("live", period_s=3))
        await engine.create(pod(sidecar, container("a")))
        await node.when(lambda: 3 in node.clock.naps)
        record = await node.until(runs(0, "s"))
        assert condition(record, "Initialized")["message"] == "containers with incomplete status: [s]"
        assert node.runtime.started == ["s"]
        node.runtime.exec_codes["up"] = 0
        await probe(node, 3)
        record = await node.until(runs(0, "a"))
        assert condition(record, "Ready")["status"] == "True"
        node.runtime.exec_codes["live"] = 1
        for _ in range(2):
            await probe(node, 3)
        node.clock.advance(3)
        await node.until(runs(1, "s"))
        assert messages(node, "Killing") == ["Init container s failed liveness probe"]


async def test_a_pod_that_is_being_deleted_is_asked_for_its_readiness_alone(node: FakeNode) -> None:
    node.runtime.deaf = {"a"}
    probes: dict[str, Any] = {
        "liveness": asks("live", period_s=4, failure_threshold=1),
        "readiness": asks("ready", period_s=4),
    }
    async with node.engine() as engine:
        await engine.create(pod(probed("a", **probes)))
        await node.until(is_ready("a"))
        await node.when(lambda: node.clock.naps.count(4) == 2)
        node.runtime.exec_codes |= {"live": 1, "ready": 1}
        await engine.delete("default", "p")
        await node.when(lambda: node.runtime.stopped == [("a", 30)])
        for _ in range(3):
            await probe(node, 4)
        record = await node.until(is_ready("a", False))
        assert record.deletion is not None
        assert "a: live" not in node.runtime.commands
        assert condition(record, "Ready")["reason"] == "ContainersNotReady"
        node.clock.advance(30)
        await node.when(lambda: not list(node.pods))


async def test_a_container_that_has_not_started_is_not_ready_while_it_stops(node: FakeNode) -> None:
    node.runtime.deaf = {"a"}
    node.runtime.exec_codes["up"] = 1
    async with node.engine() as engine:
        await engine.create(pod(probed("a", startup=asks("up", period_s=3))))
        await node.when(lambda: 3 in node.clock.naps)
        await engine.delete("default", "p")
        await node.when(lambda: 30 in node.clock.naps)
        record = await node.until(lambda record: record.deletion is not None)
        assert (status_of(record, "a")["started"], status_of(record, "a")["ready"]) == (False, False)
        node.clock.advance(30)
        await node.when(lambda: not list(node.pods))
        assert node.runtime.commands == []


async def test_a_restarted_node_keeps_what_the_probes_have_found(node: FakeNode) -> None:
    ready = probed("a", startup=asks("up", period_s=3), readiness=asks("ready", period_s=100))
    starting = probed("b", startup=asks("slow", period_s=100))
    node.runtime.exec_codes["slow"] = 1
    async with node.engine() as engine:
        await engine.create(pod(ready, starting))
        await node.when(lambda: node.clock.naps.count(3) == 1)
        node.clock.advance(3)
        await node.until(is_ready("a"))
        await node.until(runs(0, "b"))
    commands, node.clock.naps[:] = list(node.runtime.commands), []
    async with node.engine():
        record = await node.until(runs(0, "b"))
        assert (status_of(record, "a")["started"], status_of(record, "a")["ready"]) == (True, True)
        assert (status_of(record, "b")["started"], status_of(record, "b")["ready"]) == (False, False)
        await node.when(lambda: len(node.clock.naps) == 2)
        assert max(node.clock.naps) < 100, "each is asked at some moment of its first period"
        assert node.runtime.commands == commands
        node.runtime.exec_codes["ready"] = 1
        for _ in range(3):
            await probe(node, 100)
        await node.until(is_ready("a", False))


async def test_a_new_instance_has_to_become_ready_itself(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod(probed("a", readiness=asks("ready", period_s=5))))
        await node.until(is_ready("a"))
        node.runtime.exec_codes["ready"] = 1
        node.runtime.finish("p_a_0", 1)
        record = await node.until(runs(1, "a"))
        assert not status_of(record, "a")["ready"]
        await node.when(lambda: node.runtime.commands == ["a: ready", "a: ready"])


async def test_a_pod_without_probes_sets_no_timer(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod(container("a")))
        await node.until(is_in(PodPhase.RUNNING))
        assert node.clock.naps == []


async def test_a_pod_with_readiness_gates_waits_for_its_clients(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod(container("a"), readiness_gates=("example.com/fed", "example.com/warm")))
        record = await node.until(is_in(PodPhase.RUNNING))
        assert condition(record, "ContainersReady")["status"] == "True"
        unready = condition(record, "Ready")
        assert (unready["status"], unready["reason"]) == ("False", "ReadinessGatesNotReady")
        assert unready["message"] == (
            'corresponding condition of pod readiness gate "example.com/fed" does not exist., '
            'corresponding condition of pod readiness gate "example.com/warm" does not exist.'
        )
        fed, warm = ClientCondition("example.com/fed", "True"), ClientCondition("example.com/warm", "False")
        record = await engine.set_conditions(record, (fed, warm))
        message = 'the status of pod readiness gate "example.com/warm" is not "True", but False'
        assert condition(record, "Ready")["message"] == message
        node.clock.advance(9)
        early = node.clock.now() - timedelta(days=1)
        record = await engine.set_conditions(record, (fed, replace(warm, status="True", changed_at=early)))
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"}
        assert condition(record, "Ready") == ready, "the node's moment, whatever clients say"
        assert condition(record, "example.com/fed")["lastTransitionTime"] is None
        node.clock.advance(9)
        record = await engine.set_conditions(record, (replace(fed, message="well"), replace(warm, status="True")))
        assert condition(record, "Ready") == ready, "nothing has opened or closed"
        node.clock.advance(9)
        record = await engine.set_conditions(record, (fed,))
        closed = condition(record, "Ready")
        assert (closed["status"], closed["lastTransitionTime"]) == ("False", "2026-01-01T00:00:27Z")


async def test_a_fault_of_the_node_in_a_probe_ends_neither_the_pod_nor_its_probes(
    node: FakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.runtime.exec_faults["ask"] = RuntimeError("boom")
    async with node.engine() as engine:
        await engine.create(pod(probed("a", readiness=asks("ask", period_s=5)), container("b")))
        await node.when(lambda: "counts neither way" in caplog.text)
        assert "boom" in caplog.text
        record = await node.until(runs(0, "b"))
        assert not status_of(record, "a")["ready"]
        del node.runtime.exec_faults["ask"]
        await probe(node, 5)
        await node.until(is_ready("a"))
        node.runtime.exec_faults["ask"] = RuntimeError("boom")
        await engine.delete("default", "p")
        await node.when(lambda: not list(node.pods))
