"""Pods in motion as the scheduler and the taints move them, on a clock that the test moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import PodForbidden, PodNotBindable
from plugbay.model.ids import PodUid
from plugbay.model.placement import LabelSelector, Placement, PodTerm, PreemptionPolicy
from plugbay.model.pods import Pod
from plugbay.model.taints import Effect, Taint, Toleration, TolerationOperator
from plugbay.pods.engine import PodEngine
from plugbay.pods.events import Event
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.record import PodRecord
from plugbay.pods.scheduling.defaults import PriorityClass
from plugbay.pods.status import PodPhase, pod_status
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.pod_values import container, is_in, pod

CRITICAL = "system-node-critical"
SLOW = Taint("slow", Effect.NO_EXECUTE)


@pytest.fixture
def world(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def placed(name: str = "p", *, gophers: int = 0, labels: Any = None, node: str | None = None, **fields: Any) -> Pod:
    made = pod(container("c", gophers=gophers), name=name, placement=Placement(**fields), node_name=node)
    return replace(made, labels=labels or {})


def events(world: FakeNode, reason: str) -> list[Event]:
    return [event for event in world.events if event.reason == reason]


def conditions_of(record: PodRecord) -> list[dict[str, str]]:
    conditions: Any = pod_status(record, runtime="x")["conditions"]
    return list(conditions)


async def change_node(world: FakeNode, engine: PodEngine, **fields: Any) -> None:
    await engine.write_node(replace(world.node.settings, **fields))


async def test_a_pod_waits_until_the_node_has_its_label(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(placed(node_selector={"disk": "ssd"}))
        waiting = await world.until(lambda record: record.unschedulable)
        assert waiting.unschedulable == (
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims to "
            "deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
        await change_node(world, engine, labels={"disk": "ssd"})
        await world.until(is_in(PodPhase.RUNNING))
        assert len(events(world, "FailedScheduling")) == 1


async def test_a_gated_pod_waits_for_its_last_gate(world: FakeNode) -> None:
    async with world.engine() as engine:
        record = await engine.create(placed(gates=("a", "b")))
        record = await engine.update(record, placed(gates=("b",)))
        await engine.create(placed("other"))
        await world.until(is_in(PodPhase.RUNNING), "other")
        gated = world.pods[record.uid]
        [condition] = conditions_of(gated)
        assert (gated.stage, condition["reason"]) == (PodStage.UNSCHEDULED, "SchedulingGated")
        assert not events(world, "FailedScheduling")
        await engine.update(gated, placed())
        await world.until(is_in(PodPhase.RUNNING))


async def test_the_pods_of_another_scheduler_wait_to_be_bound(world: FakeNode) -> None:
    async with world.engine() as engine:
        record = await engine.create(placed(scheduler="volcano"))
        await engine.create(placed("other"))
        await world.until(is_in(PodPhase.RUNNING), "other")
        assert world.pods[record.uid].stage is PodStage.UNSCHEDULED
        bound = await engine.bind(world.pods[record.uid])
        await world.until(is_in(PodPhase.RUNNING))
        assert len(events(world, "Scheduled")) == 1, "the other scheduler tells of its own"
        with pytest.raises(PodNotBindable, match='already assigned to node "n1"'):
            await engine.bind(bound)


async def test_a_client_binds_a_pod_that_does_not_fit(world: FakeNode) -> None:
    async with world.engine() as engine:
        record = await engine.create(placed(node_selector={"disk": "ssd"}))
        await world.until(lambda record: record.unschedulable)
        await engine.bind(world.pods[record.uid])
        ended = await world.until(is_in(PodPhase.FAILED))
        assert ended.rejection is not None
        assert ended.rejection.reason == "NodeAffinity"


async def test_pods_that_name_the_node_are_looked_at_by_the_kubelet(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(placed(node="n1", node_selector={"disk": "ssd"}))
        ended = await world.until(is_in(PodPhase.FAILED))
        assert ended.rejection is not None
        assert (ended.rejection.reason, ended.rejection.message) == (
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        )
        await change_node(world, engine, taints=(Taint("gpu", Effect.NO_SCHEDULE),), cordoned_since=world.clock.now())
        await engine.create(placed("q", node="n1"))
        await world.until(is_in(PodPhase.RUNNING), "q")


# --- priority -------------------------------------------------------------------------------------------------------


async def test_the_most_important_pod_that_waits_goes_first(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(placed("low", gophers=1))
        await world.until(lambda record: record.unschedulable, "low")
        await engine.create(placed("high", gophers=1, priority_class=CRITICAL))
        await world.until(lambda record: record.unschedulable, "high")
        world.devices.offer(1)
        await world.until(is_in(PodPhase.RUNNING), "high")
        assert world.pods.named("default", "low").stage is PodStage.UNSCHEDULED


async def test_a_less_important_pod_makes_room(world: FakeNode) -> None:
    world.devices.offer(2)
    async with world.engine() as engine:
        low = await engine.create(placed("low", gophers=1))
        await engine.create(placed("other", gophers=1))
        await world.until(is_in(PodPhase.RUNNING), "low")
        await world.until(is_in(PodPhase.RUNNING), "other")
        high = await engine.create(placed("high", gophers=1, priority_class=CRITICAL))
        victim = await world.until(lambda record: record.disruption, "other")
        waiting = await world.until(lambda record: record.nominated_node, "high")
        running = await world.until(is_in(PodPhase.RUNNING), "high")
        assert waiting.unschedulable == "0/1 nodes are available: 1 Insufficient example.com/gopher."
        assert pod_status(waiting, runtime="x")["nominatedNodeName"] == "n1"
        assert (running.nominated_node, running.unschedulable) == ("", "")
        [condition] = [each for each in conditions_of(victim) if each["type"] == "DisruptionTarget"]
        assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        assert condition["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
        [told] = events(world, "Preempted")
        assert (told.about.name, told.message) == ("other", f"Preempted by pod {high.uid} on node n1")
        assert world.pods[low.uid].stage is PodStage.ACTIVE


async def test_a_polite_pod_drives_nobody_away(world: FakeNode) -> None:
    world.devices.offer(1)
    classes = {"polite": PriorityClass("polite", 10, PreemptionPolicy.NEVER)}
    async with world.engine(priority_classes=lambda: classes) as engine:
        low = await engine.create(placed("low", gophers=1))
        await world.until(is_in(PodPhase.RUNNING), "low")
        await engine.create(placed("polite", gophers=1, priority_class="polite"))
        waiting = await world.until(lambda record: record.unschedulable, "polite")
        assert waiting.unschedulable == (
            "0/1 nodes are available: 1 Insufficient example.com/gopher. no new claims to deallocate, "
            "preemption: not eligible due to preemptionPolicy=Never."
        )
        assert world.pods[low.uid].stage is PodStage.ACTIVE
        with pytest.raises(PodForbidden, match="no PriorityClass with name none was found"):
            await engine.create(placed("q", priority_class="none"))


async def test_room_that_is_made_for_one_pod_is_not_taken_by_a_lesser_one(world: FakeNode) -> None:
    world.devices.offer(1)
    world.devices.deallocates.clear()
    async with world.engine() as engine:
        await engine.create(placed("low", gophers=1))
        await world.until(is_in(PodPhase.RUNNING), "low")
        await engine.create(placed("high", gophers=1, priority_class=CRITICAL))
        await world.until(lambda record: record.nominated_node, "high")
        await engine.create(placed("late", gophers=1))
        world.devices.offer(2)
        world.devices.deallocates.set()
        await world.until(is_in(PodPhase.RUNNING), "high")
        await world.until(is_in(PodPhase.RUNNING), "late")
        assert [event.about.name for event in events(world, "Preempted")] == ["low"]


# --- taints ---------------------------------------------------------------------------------------------------------


def patient(seconds: int | None) -> tuple[Toleration, ...]:
    return (Toleration("slow", TolerationOperator.EXISTS, effect=Effect.NO_EXECUTE, seconds=seconds),)


async def test_a_taint_drives_pods_away(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(placed("gone"))
        await engine.create(placed("stays", tolerations=patient(None)))
        for name in ("gone", "stays"):
            await world.until(is_in(PodPhase.RUNNING), name)
        await change_node(world, engine, taints=(SLOW,))
        driven = await world.until(lambda record: record.deletion, "gone")
        assert driven.disruption is not None
        assert driven.disruption.reason == "DeletionByTaintManager"
        await world.when(lambda: not world.pods.has("default", "gone"))
        assert [each.message for each in events(world, "TaintManagerEviction")] == [
            "Marking for deletion Pod default/gone"
        ]
        assert world.pods.named("default", "stays").deletion is None


async def test_a_pod_stays_as_long_as_it_tolerates_the_taint(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(placed(tolerations=patient(30)))
        await world.until(is_in(PodPhase.RUNNING))
        await change_node(world, engine, taints=(SLOW,))
        await world.when(lambda: 30 in world.clock.naps)
        world.clock.advance(29)
        assert world.pods.named("default", "p").deletion is None
        world.clock.advance(1)
        await world.until(lambda record: record.deletion)


async def test_a_taint_that_goes_lets_pods_stay(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(placed(tolerations=patient(30)))
        await world.until(is_in(PodPhase.RUNNING))
        await change_node(world, engine, taints=(SLOW,))
        await world.when(lambda: 30 in world.clock.naps)
        await change_node(world, engine, taints=())
        await world.when(lambda: bool(events(world, "TaintManagerEviction")))
        world.clock.advance(100)
        [told] = events(world, "TaintManagerEviction")
        assert told.message == "Cancelling deletion of Pod default/p"
        assert world.pods.named("default", "p").deletion is None


async def test_a_pod_bound_later_has_its_time_as_well(world: FakeNode) -> None:
    async with world.engine() as engine:
        await change_node(world, engine, taints=(SLOW,))
        await engine.create(placed(tolerations=patient(5)))
        await world.until(is_in(PodPhase.RUNNING))
        await world.when(lambda: 5 in world.clock.naps)
        world.clock.advance(5)
        await world.until(lambda record: record.deletion)


async def test_taints_from_before_a_restart_drive_pods_away(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(placed())
        await world.until(is_in(PodPhase.RUNNING))
    world.node.write(replace(world.node.settings, taints=(SLOW,)))
    async with world.engine():
        await world.until(lambda record: record.deletion)


# --- other pods -----------------------------------------------------------------------------------------------------


async def test_a_pod_waits_until_one_that_it_does_not_want_is_gone(world: FakeNode) -> None:
    away = (PodTerm(LabelSelector({"app": "web"}), "kubernetes.io/hostname"),)
    async with world.engine() as engine:
        await engine.create(placed("first", labels={"app": "web"}, apart=away))
        await world.until(is_in(PodPhase.RUNNING), "first")
        await engine.create(placed("second", labels={"app": "web"}, apart=away))
        waiting = await world.until(lambda record: record.unschedulable, "second")
        assert "1 node(s) didn't match pod anti-affinity rules." in waiting.unschedulable
        await engine.delete("default", "first", grace_s=0)
        await world.until(is_in(PodPhase.RUNNING), "second")


async def test_a_pod_waits_for_company(world: FakeNode) -> None:
    near = (PodTerm(LabelSelector({"app": "web"}), "kubernetes.io/hostname"),)
    async with world.engine() as engine:
        await engine.create(placed("first", near=near))
        await world.until(lambda record: record.unschedulable, "first")
        await engine.create(placed("second", labels={"app": "web"}))
        await world.until(is_in(PodPhase.RUNNING), "first")


async def test_a_new_label_of_a_pod_is_seen(world: FakeNode) -> None:
    near = (PodTerm(LabelSelector({"app": "web"}), "kubernetes.io/hostname"),)
    async with world.engine() as engine:
        first = await engine.create(placed("first"))
        await world.until(is_in(PodPhase.RUNNING), "first")
        await engine.create(placed("second", near=near))
        await world.until(lambda record: record.unschedulable, "second")
        await engine.update(world.pods[PodUid(first.uid)], placed("first", labels={"app": "web"}))
        await world.until(is_in(PodPhase.RUNNING), "second")
