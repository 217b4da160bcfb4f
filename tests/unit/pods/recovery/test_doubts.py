"""A container of which nothing can be found out may run: its pod keeps its devices until that is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.pods.running.stop import RETRY_S
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.pod_values import container, pod, runs


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_devices_are_held_until_the_container_can_be_stopped(tmp_path: Path, *, is_restarted: bool) -> None:
    node = FakeNode(tmp_path)
    node.devices.offer(1)
    async with node.engine() as engine:
        await engine.create(pod(container("c", gophers=1)))
        record = await node.until(runs(0))
        node.runtime.unreadable = {"c"}
        if not is_restarted:
            await engine.delete("default", "p", grace_s=0)
            await node.when(lambda: "FailedKillPod" in node.reasons())
            await end_of_doubt(node)
            return
    async with node.engine() as engine:
        assert runs(0)(node.pods[record.uid])
        await engine.delete("default", "p", grace_s=0)
        await node.when(lambda: "FailedKillPod" in node.reasons())
        await end_of_doubt(node)


async def end_of_doubt(node: FakeNode) -> None:
    assert node.devices.held
    assert len(node.runtime.running()) == 1
    node.runtime.unreadable.clear()
    node.clock.advance(RETRY_S)
    await node.when(lambda: not list(node.pods))
    assert not node.devices.held
    assert not node.runtime.running()


async def test_a_container_in_doubt_is_not_started_a_second_time(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    async with node.engine() as engine:
        await engine.create(pod())
        await node.until(runs(0))
        node.runtime.unreadable = {"c"}
        node.moved.notify()
        await node.when(lambda: "FailedSync" in node.reasons())
        assert node.runtime.started == ["c"]
        node.runtime.unreadable.clear()
        node.clock.advance(RETRY_S)
        node.runtime.finish("p_c_0", 0)
        await node.until(runs(1))


async def test_what_is_in_doubt_and_belongs_to_no_pod_keeps_its_devices(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    node.devices.offer(1)
    async with node.engine() as engine:
        await engine.create(pod(container("c", gophers=1)))
        record = await node.until(runs(0))
    node.kept.delete_pod(record.uid)
    node.runtime.unreadable = {"c"}
    async with node.engine():
        await node.when(lambda: RETRY_S in node.clock.naps)
        assert node.devices.held
        node.runtime.unreadable.clear()
        node.clock.advance(RETRY_S)
        await node.when(lambda: not node.devices.held)
        assert not node.runtime.instances
