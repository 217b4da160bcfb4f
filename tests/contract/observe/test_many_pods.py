"""Our own node with 500 pods, as `who`, the exporter and the page show it. Its containers are played, not run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.cli.main import run
from plugbay.model.devices import Device
from plugbay.model.health import HEALTHY, unhealthy
from plugbay.model.ids import DeviceId
from plugbay.node import run as runner
from plugbay.node.runtimes.chosen import ChosenRuntime
from plugbay.observe.exporting.series import node_metrics
from plugbay.observe.following import followed
from plugbay.observe.joining.node import join
from plugbay.observe.page.rows import DeviceRow, rows_of
from plugbay.observe.places import places_of
from plugbay.observe.reading.node import read_node
from plugbay.observe.view import HealthWord, ObservedNode
from plugbay.ops.changes import Changes
from plugbay.ops.clock import SystemClock
from plugbay.runtimes.pod_ports import LoopbackPorts
from plugbay.runtimes.port import ContainerId, ContainerState
from plugbay.runtimes.sandboxes import HostSandboxes
from plugbay.testing.fake_runtime import FakeRuntime
from tests.contract.rigs.node_run import PODS, RESOURCE, Node, gophers, pod, root, running_node

__all__ = ["root"]
COUNT: Final = 500
FREE: Final = 12
IDS: Final = [f"gopher-{number:03}" for number in range(COUNT + FREE)]


class EndlessRuntime(FakeRuntime):
    """Its containers do not end."""

    async def wait(self, container: ContainerId) -> ContainerState:
        await asyncio.get_running_loop().create_future()
        raise AssertionError


@asynccontextmanager
async def played_runtime(*_: object, **__: object) -> AsyncIterator[ChosenRuntime]:
    runtime = EndlessRuntime(SystemClock(), Changes())
    yield ChosenRuntime(runtime, HostSandboxes(), LoopbackPorts(), "the test, as nothing")


def create_all(node: Node) -> None:
    """Blocks."""
    for number in range(COUNT):
        manifest = pod(f"holder-{number:03}", gophers=1)
        manifest["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Thing", "name": f"boss-{number % 7}", "uid": "o1", "controller": True}
        ]
        node.client.create(PODS, manifest)


async def who(root: Path, capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    capsys.readouterr()
    assert await asyncio.to_thread(run, ["who", "--root", str(root), *argv]) == 0
    return capsys.readouterr().out


@pytest.mark.timeout(120)
async def test_every_pod_is_shown_with_its_device(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "open_runtime", played_runtime)
    places = places_of(root, is_own=True)

    async def read() -> ObservedNode:
        return join(await read_node(places, now=SystemClock().now()))

    async with (
        asyncio.timeout(100),
        running_node(root, max_pods=COUNT) as node,
        gophers(node, *IDS) as plugin,
    ):
        await asyncio.to_thread(create_all, node)
        sick = {IDS[0], IDS[-1]}
        plugin.send([Device(DeviceId(each), health=unhealthy("Burnt") if each in sick else HEALTHY) for each in IDS])
        async for view in followed(read, places):
            (resource,) = view.resources
            held = [device for device in resource.devices if device.holders]
            is_told = (resource.allocated, resource.allocatable) == (COUNT, len(IDS) - len(sick))
            if is_told and len(held) == COUNT and not any(device.disagreements for device in resource.devices):
                break
        names = [holder.pod for device in held for holder in device.holders]
        assert sorted(names) == [f"holder-{number:03}" for number in range(COUNT)]
        assert {holder.requested_by for device in held for holder in device.holders} == {
            f"Thing/boss-{number}" for number in range(7)
        }
        assert all(holder.since is not None for device in held for holder in device.holders)
        assert view.problems == ()
        pod_of = {device.id: device.holders[0].pod for device in held}
        assert_metrics(view, pod_of)
        assert_rows(view, pod_of, sick)
        shown = json.loads(await who(root, capsys, "-o", "json"))
        assert_shown(shown, pod_of)
        one = await who(root, capsys, "pod/holder-007", "-o", "name")
        assert one.split() == [f"{RESOURCE}={next(each for each, name in pod_of.items() if name == 'holder-007')}"]
        assert len((await who(root, capsys, "--unhealthy", "-o", "name")).split()) == len(sick)


def assert_metrics(view: ObservedNode, pod_of: dict[str, str]) -> None:
    samples = {metric.name: list(metric.samples) for metric in node_metrics(view).metrics}
    assigned = [dict(labels) for labels, _ in samples["plugbay_node_device_assigned"]]
    assert {labels["device"]: labels["pod"] for labels in assigned} == pod_of
    assert {labels["namespace"] for labels in assigned} == {"default"}


def assert_rows(view: ObservedNode, pod_of: dict[str, str], sick: set[str]) -> None:
    rows = [row.device for row in rows_of(view).values() if isinstance(row, DeviceRow)]
    assert [device.id for device in rows] == IDS
    assert {device.id: device.holders[0].pod for device in rows if device.holders} == pod_of
    assert {device.id for device in rows if device.health.word is not HealthWord.HEALTHY} == sick


def assert_shown(shown: Any, pod_of: dict[str, str]) -> None:
    items = shown["items"]
    assert [each["id"] for each in items] == IDS
    assert {each["id"]: each["holder"]["pod"] for each in items if each["holder"]} == pod_of
    witnesses = {tuple(each["holder"]["sources"]) for each in items if each["holder"]}
    assert witnesses == {("checkpoint", "node", "podresources")}
