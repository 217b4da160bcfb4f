"""What the node tells its device manager about the ends of containers and pods."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError, NoHealthyDevices
from plugbay.manager.release.notices import ReleaseNotice
from plugbay.model.ids import ContainerName
from plugbay.model.pods import RestartPolicy
from plugbay.model.releases import OperationKind
from plugbay.model.requests import ContainerKind
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.record import PodRecord, Running
from plugbay.testing.fake_node import GOPHER, FakeNode
from plugbay.testing.pod_values import container, pod

NEVER = RestartPolicy.NEVER


@pytest.fixture
def world(tmp_path: Path) -> FakeNode:
    node = FakeNode(tmp_path)
    node.devices.offer(3)
    return node


def runs(record: PodRecord) -> bool:
    return all(isinstance(each.state, Running) for each in record.containers.values())


def ended(record: PodRecord) -> bool:
    return record.stage is PodStage.ENDED


async def test_each_instance_is_told_of(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(pod())
        await world.until(runs)
        world.runtime.finish("p_c_0", 1)
        await world.until(lambda record: runs(record) and record.containers[ContainerName("c")].attempt == 1)
        await engine.delete("default", "p")
        await world.when(lambda: not list(world.pods))
        uid = next(iter({told.split()[0] for told in world.devices.told if "pod ended" in told}))
        assert world.devices.told == ["c p_c_0 ended", "c p_c_1 ended", f"{uid} pod ended"]


async def test_sidecar_is_told_of_before_the_pod_is_released(world: FakeNode) -> None:
    side = container("s", kind=ContainerKind.SIDECAR)
    async with world.engine() as engine:
        await engine.create(pod(side, container("c"), policy=NEVER))
        await world.until(runs)
        world.runtime.finish("p_c_0", 0)
        await world.until(ended)
        assert [told.split()[0] for told in world.devices.told[:2]] == ["c", "s"]
        assert world.devices.told[2].endswith("pod ended")


async def test_end_that_a_killed_node_did_not_tell_is_told_by_the_next(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(pod(policy=NEVER))
        await world.until(runs)
    world.runtime.finish("p_c_0", 0)
    async with world.engine():
        await world.until(ended)
    assert world.devices.told[0] == "c p_c_0 ended"


async def test_container_that_cannot_be_made(world: FakeNode) -> None:
    world.runtime.refusals.append(ContainerStartError("CreateContainerError", "no such image"))
    async with world.engine() as engine:
        await engine.create(pod())
        await world.when(lambda: "c not started" in world.devices.told)


async def test_refused_pod_was_never_there(world: FakeNode) -> None:
    world.devices.refusal = NoHealthyDevices(GOPHER)
    async with world.engine() as engine:
        await engine.create(pod())
        await world.until(ended)
        assert world.devices.told == []


async def test_pods_of_an_unknown_time_are_orphans(world: FakeNode) -> None:
    async with world.engine() as engine:
        record = await engine.create(pod())
        await world.until(runs)
    world.kept.pods.clear()  # as if the node had lost what it knew
    async with world.engine():
        await world.when(lambda: f"{record.uid} orphaned" in world.devices.told)
    assert world.devices.told == ["c p_c_0 ended", f"{record.uid} orphaned"]


async def test_end_waits_for_the_plugin_unless_somebody_is_in_a_hurry(world: FakeNode) -> None:
    world.devices.deallocates.clear()
    async with world.engine() as engine:
        await engine.create(pod())
        await world.until(runs)
        await engine.delete("default", "p")
        await world.when(lambda: bool(world.devices.told) and world.devices.told[-1].endswith("pod ended"))
        await asyncio.sleep(0)
        assert list(world.pods)
        await engine.delete("default", "p", grace_s=0)
        await world.when(lambda: not list(world.pods))


@pytest.mark.parametrize(
    ("kind", "of", "reason", "field_path"),
    [
        (OperationKind.POST_STOP, "c", "FailedPostStopDevice", "spec.containers{c}"),
        (OperationKind.DEALLOCATE, "", "FailedDeallocateDevice", ""),
    ],
)
async def test_failed_calls_are_events(
    world: FakeNode, kind: OperationKind, of: str, reason: str, field_path: str
) -> None:
    async with world.engine() as engine:
        record = await engine.create(pod())
        world.devices.notices.put(ReleaseNotice(record.uid, ContainerName(of), kind, "no power"))
        await world.when(lambda: reason in world.reasons())
        event = next(event for event in world.events if event.reason == reason)
        assert (event.message, event.about.field_path) == ("no power", field_path)
