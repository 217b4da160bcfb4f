"""What a stock kubelet told at 99 moments, joined: the holders are those that it knew, and sources agree."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.model.ids import ContainerName, DeviceId, ResourceName
from plugbay.model.podresources import AllocatableResources, ContainerDevices, ContainerResources, PodResources
from plugbay.observe.evidence import CheckpointEntry, CheckpointEvidence, KnownPod, NodeEvidence
from plugbay.observe.joining.node import join
from plugbay.observe.reading.checkpoint_file import read_checkpoint
from plugbay.observe.view import CheckpointFile, HealthWord

GOLDEN: Final = Path(__file__).parents[2] / "golden"
RECORDED: Final = [json.loads(line) for line in (GOLDEN / "podresources/kubelet-1.36.jsonl").read_text().splitlines()]
NOW: Final = datetime(2026, 11, 23, tzinfo=UTC)


def element(resource: str, ids: list[str], nodes: list[int] | None) -> ContainerDevices:
    devices = tuple(map(DeviceId, ids))
    return ContainerDevices(ResourceName(resource), devices, None if nodes is None else tuple(nodes))


def answered(case: Mapping[str, Any]) -> Iterator[PodResources]:
    for name, containers in case["v1_list"].items():
        listed = (
            ContainerResources(ContainerName(container), tuple(element(*each) for each in devices))
            for container, devices in containers
        )
        yield PodResources("default", name, tuple(listed))


def evidence(case: Mapping[str, Any], *, asked: bool) -> NodeEvidence:
    entries = tuple(
        CheckpointEntry(f"uid-{pod}", container, resource, {int(node): tuple(ids) for node, ids in by_node.items()})
        for pod, container, resource, by_node in case["assignments"]
    )
    healthy = {
        name: tuple(id for id, health, _ in plugin["devices"] if health == "Healthy" and plugin["connected"])
        for name, plugin in case["resources"].items()
    }
    file = CheckpointFile(path="/k/checkpoint", written=NOW)
    return NodeEvidence(
        taken=NOW,
        root="/k",
        checkpoint=CheckpointEvidence(file=file, entries=entries, registered=healthy),
        pods=tuple(answered(case)) if asked else None,
        allocatable=AllocatableResources(tuple(element(*each) for each in case["v1_allocatable"])) if asked else None,
        known_pods={f"uid-{pod['name']}": KnownPod(namespace="default", name=pod["name"]) for pod in case["pods"]},
    )


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["case"])
def test_the_view_is_what_the_kubelet_knew(case: Mapping[str, Any]) -> None:
    view, by_files = join(evidence(case, asked=True)), join(evidence(case, asked=False))
    assigned = {
        (resource, device, pod, container)
        for pod, container, resource, by_node in case["assignments"]
        for ids in by_node.values()
        for device in ids
    }
    for each in (view, by_files):
        held = {
            (resource.name, device.id, holder.pod, holder.container)
            for resource in each.resources
            for device in resource.devices
            for holder in device.holders
        }
        assert held == assigned
        assert not [
            device.disagreements for resource in each.resources for device in resource.devices if device.disagreements
        ]
    healthy = {
        (resource.name, device.id)
        for resource in view.resources
        for device in resource.devices
        if device.health.word is HealthWord.HEALTHY
    }
    assert healthy == {(name, id) for name, ids, _ in case["v1_allocatable"] for id in ids}


@pytest.mark.parametrize("path", sorted((GOLDEN / "checkpoints").glob("*.json")), ids=lambda path: path.stem)
def test_every_checkpoint_is_read_or_has_a_sentence(path: Path) -> None:
    found = read_checkpoint(path)
    assert found.file.written is not None
    assert found.file.is_valid or found.file.problem
    assert found.entries is not None or found.file.problem
