"""What a change of a pod's images or deadline does to the pod that runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import ContainerStartError, ImmutablePod
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Pod, RestartPolicy
from plugbay.model.requests import ContainerKind
from plugbay.pods.record import (
    FILE,
    HASH_ANNOTATION,
    SOURCE_ANNOTATION,
    ContainerRecord,
    PodRecord,
    Running,
    Waiting,
)
from plugbay.pods.status import PodPhase, pod_status
from plugbay.runtimes.port import ContainerId
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.pod_values import container, is_in, pod, runs, state_of, waits_for

T0 = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def with_image(there: Pod, image: str, name: str = "c") -> Pod:
    def changed(containers: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(replace(each, image=image) if each.name == name else each for each in containers)

    spec = replace(
        there.spec,
        containers=changed(there.spec.containers),
        init_containers=changed(there.spec.init_containers),
    )
    return replace(there, spec=spec)


def with_deadline(there: Pod, seconds: int) -> Pod:
    return replace(there, spec=replace(there.spec, active_deadline_s=seconds))


def images_started(node: FakeNode) -> list[str | None]:
    return [spec.container.image for spec in node.runtime.specs.values()]


@pytest.mark.parametrize("policy", RestartPolicy)
async def test_a_container_with_another_image_is_started_anew_whatever_the_policy(
    node: FakeNode, policy: RestartPolicy
) -> None:
    async with node.engine() as engine:
        await engine.create(pod(container("a"), container("c"), policy=policy, termination_grace_period_s=7))
        record = await node.until(runs(0, "c"))
        await engine.update(record, with_image(record.pod, "j:1"))
        record = await node.until(runs(1, "c"))
    assert node.runtime.stopped == [("c", 7)]
    assert images_started(node) == ["i", "i", "j:1"]
    assert isinstance(state_of(record, "a"), Running)
    killing = [event.message for event in node.events if event.reason == "Killing"]
    assert killing == ["Container c definition changed, will be restarted"]
    [a, c] = images_shown(record)
    assert (a, c) == ("i", "j:1")


def images_shown(record: PodRecord) -> list[str]:
    status: Any = pod_status(record, runtime="fake")
    return [each["image"] for each in status["containerStatuses"]]


async def test_the_status_names_the_image_that_runs_until_the_other_does(node: FakeNode) -> None:
    node.runtime.deaf.add("c")
    async with node.engine() as engine:
        await engine.create(pod(termination_grace_period_s=20))
        record = await node.until(runs(0, "c"))
        await engine.update(record, with_image(record.pod, "j:1"))
        await node.when(lambda: node.runtime.stopped == [("c", 20)])
        record = node.pods[record.uid]
        assert (record.pod.spec.containers[0].image, images_shown(record)) == ("j:1", ["i"])
        await node.when(lambda: 20 in node.clock.naps)
        node.clock.advance(20)
        assert images_shown(await node.until(runs(1, "c"))) == ["j:1"]


async def test_a_start_that_failed_is_tried_at_once_with_another_image(node: FakeNode) -> None:
    node.runtime.refusals = [ContainerStartError("ErrImagePull", "there is none")] * 2
    async with node.engine() as engine:
        await engine.create(pod())
        record = await node.until(waits_for("ErrImagePull"))
        node.runtime.refusals.clear()
        await engine.update(record, with_image(record.pod, "j:1"))
        await node.until(runs(0, "c"))
    assert images_started(node) == ["j:1"]


async def test_another_image_ends_the_wait_of_a_container_that_failed(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod())
        for attempt in (0, 1):
            await node.until(runs(attempt, "c"))
            node.runtime.finish(f"p_c_{attempt}", 1)
        record = await node.until(waits_for("CrashLoopBackOff"))
        await engine.update(record, with_image(record.pod, "j:1"))
        await node.until(runs(2, "c"))
    assert images_started(node)[-1] == "j:1"


async def test_a_sidecar_is_started_anew_too(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod(container("s", ContainerKind.SIDECAR), container("c")))
        record = await node.until(runs(0, "c"))
        await engine.update(record, with_image(record.pod, "j:1", "s"))
        record = await node.until(runs(1, "s"))
    assert (node.runtime.started, [name for name, _ in node.runtime.stopped]) == (["s", "c", "s"], ["s"])


async def test_an_image_that_changed_before_a_restart_of_the_node_is_run_after_it(node: FakeNode) -> None:
    node.runtime.deaf.add("c")
    async with node.engine() as engine:
        await engine.create(pod())
        record = await node.until(runs(0, "c"))
        await engine.update(record, with_image(record.pod, "j:1"))
    node.runtime.deaf.clear()
    async with node.engine():
        await node.until(runs(1, "c"))
    assert images_started(node) == ["i", "j:1"]


@pytest.mark.parametrize("state", [Running(ContainerId("p_c_0"), T0), Waiting("ContainerCreating")])
async def test_a_container_whose_image_was_not_recorded_is_started_anew_too(
    node: FakeNode, state: Running | Waiting
) -> None:
    """An earlier version recorded no image; a node that is killed just after the start has recorded nothing."""
    async with node.engine() as engine:
        await engine.create(pod())
        record = await node.until(runs(0, "c"))
    name = ContainerName("c")
    node.kept.save_pod(record.with_container(name, ContainerRecord(ContainerKind.APP, state)))
    async with node.engine() as engine:
        record = await node.until(runs(0, "c"))
        await engine.update(record, with_image(record.pod, "j:1"))
        await node.until(runs(1, "c"))
    assert images_started(node) == ["i", "j:1"]


async def test_a_pod_that_ended_is_not_started_by_another_image(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod(policy=RestartPolicy.NEVER))
        await node.until(runs(0, "c"))
        node.runtime.finish("p_c_0", 0)
        record = await node.until(is_in(PodPhase.SUCCEEDED))
        await engine.update(record, with_image(record.pod, "j:1"))
        await engine.delete("default", "p")
        await node.when(lambda: not list(node.pods))
    assert images_started(node) == ["i"]


async def test_a_pod_gets_a_deadline_that_comes_nearer(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod())
        record = await node.until(runs(0, "c"))
        node.clock.advance(10)
        record = await engine.update(record, with_deadline(record.pod, 60))
        await node.when(lambda: 50 in node.clock.naps)
        record = await engine.update(record, with_deadline(record.pod, 30))
        await node.when(lambda: 20 in node.clock.naps)
        with pytest.raises(ImmutablePod, match=r"spec\.activeDeadlineSeconds"):
            await engine.update(record, with_deadline(record.pod, 31))
        node.clock.advance(20)
        record = await node.until(is_in(PodPhase.FAILED))
    assert record.failure is not None
    assert record.failure.reason == "DeadlineExceeded"


async def test_a_deadline_that_has_passed_already_fails_the_pod_at_once(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod())
        record = await node.until(runs(0, "c"))
        node.clock.advance(10)
        await engine.update(record, with_deadline(record.pod, 5))
        await node.until(is_in(PodPhase.FAILED))


async def test_a_static_pod_is_what_its_file_says(node: FakeNode) -> None:
    marks = {SOURCE_ANNOTATION: FILE, HASH_ANNOTATION: "u"}
    static = replace(pod(node_name="n1"), uid=PodUid("u"), annotations=marks)
    async with node.engine() as engine:
        record = await engine.create_static(static)
        with pytest.raises(ImmutablePod, match=r"spec\.containers\[0\]\.image"):
            await engine.update(record, with_image(record.pod, "j:1"))
        await engine.update(record, replace(record.pod, labels={"a": "b"}))
