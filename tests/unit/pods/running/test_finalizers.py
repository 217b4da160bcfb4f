"""Deleted pods with finalizers: they stop, and stay until the last finalizer is taken away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from plugbay.pods.lifecycle import PodStage
from plugbay.pods.status import PodPhase
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.pod_values import container, is_in, pod


async def test_a_deleted_pod_stays_until_its_last_finalizer_goes(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    async with node.engine() as engine:
        await engine.create(replace(pod(container("c")), finalizers=("example.com/a", "example.com/b")))
        await node.until(is_in(PodPhase.RUNNING))
        await engine.delete("default", "p", grace_s=0)
        record = await node.until(lambda record: record.stage is PodStage.GONE)
        assert record.has_stopped
        assert (await engine.delete("default", "p", grace_s=0)).stage is PodStage.GONE
    async with node.engine() as engine:  # a restart keeps it, and starts nothing
        [record] = node.pods
        record = await engine.update(record, replace(record.pod, finalizers=("example.com/b",)))
        assert [each.stage for each in node.pods] == [PodStage.GONE]
        await engine.update(record, replace(record.pod, finalizers=()))
        assert not list(node.pods)
    async with node.engine():
        assert not list(node.pods)
        assert node.runtime.started == ["c"]


async def test_a_pod_that_loses_its_finalizers_while_it_lives_is_removed_as_any_other(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    async with node.engine() as engine:
        await engine.create(replace(pod(container("c")), finalizers=("example.com/a",)))
        record = await node.until(is_in(PodPhase.RUNNING))
        await engine.update(record, replace(record.pod, finalizers=()))
        await engine.delete("default", "p", grace_s=0)
        await node.when(lambda: not list(node.pods))
