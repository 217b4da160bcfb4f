"""Recordings played to our Device Manager: what it did is the same again, and what is not is told with its line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from plugbay import Device as OfferedDevice
from plugbay import DevicePlugin
from plugbay.errors import InvalidDocument, RpcCode
from plugbay.manager.gates import parse_feature_gates
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.health import unhealthy
from plugbay.model.ids import DeviceId
from plugbay.node.api.recording.routes import RECORDING
from plugbay.ops.clock import SystemClock
from plugbay.testing.fakes.plugin import fake_plugin, refusing
from plugbay.testing.local.opening import local_kubelet
from plugbay.testing.tracing.manager.replay import replay_to_manager
from plugbay.testing.tracing.report import ReplayReport
from plugbay.testing.tracing.selection import Selection
from plugbay.traffic.file import RecordingSettings
from plugbay.traffic.file_format import RecordedLine, RecordingHeader, header_of, read_recording
from plugbay.traffic.pod_events import PodEvent, RecordedStep
from plugbay.traffic.records import TrafficEvent, TrafficRecord
from tests.contract.rigs.node_run import RESOURCE, Node, gophers, pod, root, running_node

__all__ = ["root"]
Recording = tuple[RecordingHeader, Sequence[RecordedLine]]


def read(path: Path) -> Recording:
    with path.open(encoding="utf-8", newline="\n") as lines:
        header, events = read_recording(lines, str(path))
        return header, list(events)


def recorded(records: Iterable[TrafficRecord]) -> Recording:
    header = header_of(datetime(2026, 1, 31, tzinfo=UTC), is_masked=True)
    return header, [RecordedLine(number, record) for number, record in enumerate(records, start=2)]


async def replayed(recording: Recording, selection: Selection | None = None) -> ReplayReport:
    async with asyncio.timeout(60):
        return await replay_to_manager(*recording, selection or Selection(), clock=SystemClock(), source="r.jsonl")


def differing(report: ReplayReport) -> list[tuple[str, Any]]:
    return [(step.title.partition("  ")[2], step.differences) for step in report.steps if step.differences]


def changed(recording: Recording, change: Callable[[Any], Any]) -> Recording:
    return recording[0], [replace(line, event=change(line.event)) for line in recording[1]]


async def until_free(node: Node, device: str) -> None:
    """Ask until no pod has the device; it is free some time after its pod is gone."""
    async with asyncio.timeout(30):
        while True:
            (resource,) = (await node.get("/plugbay/v1/devices"))["resources"]
            (found,) = [each for each in resource["devices"] if each["id"] == device]
            if found["holder"] is None and not found["releasing"]:
                return
            await asyncio.sleep(0.02)


@pytest.fixture
async def node_recording(root: Path, tmp_path: Path) -> Recording:
    """Pods that are admitted, refused and released, a list that changes, and all calls that a plugin may want."""
    path = tmp_path / "recording.jsonl"
    gates = parse_feature_gates("DeviceManagerDeallocate=true")
    settings = RecordingSettings(path)
    async with asyncio.timeout(60), running_node(root, record=settings, gates=gates, fake_numa_nodes=2) as node:
        wants = PluginOptions(pre_start_required=True, post_stop_required=True, deallocate_required=True)
        paths = node.config.kubelet_paths
        devices = [Device(DeviceId(each)) for each in ("g1", "g2", "g3")]
        async with fake_plugin(RESOURCE, paths.device_plugins / "gopher.sock", devices, options=wants) as plugin:
            await plugin.register(paths.registration_socket)
            for name in ("one", "two"):
                await node.create(pod(name, gophers=1))
                await node.pod_in(name, "Running")
            plugin.send([Device(DeviceId("g1")), Device(DeviceId("g3"), health=unhealthy("Burnt"))])
            await node.create(pod("too-many", gophers=9, nodeName="n1"))
            await node.pod_in("too-many", "Failed")
            await node.gone("one", gracePeriodSeconds="0")
            await until_free(node, "g1")  # a moment after its Deallocate has ended, when the node has stored that
            plugin.allocate_answer = refusing(RpcCode.INTERNAL, "no power")
            await node.create(pod("powerless", gophers=1, nodeName="n1"))
            await node.pod_in("powerless", "Failed")
            await node.gone("two", gracePeriodSeconds="0")
    return read(path)


async def test_node_does_again_what_it_did(node_recording: Recording) -> None:
    report = await replayed(node_recording)
    assert differing(report) == []
    titles = [step.title.partition("  ")[2] for step in report.steps]
    assert titles.count(f"{RESOURCE}  Allocate") == 3
    assert titles.count(f"{RESOURCE}  PreStartContainer") == 2
    assert titles.count(f"{RESOURCE}  Deallocate") == 2
    assert titles.count(f"{RESOURCE}  PostStopContainer") == 2
    assert titles.count(f"{RESOURCE}  Register") == 1
    assert {f"admit of pod default/{name}" for name in ("one", "two", "too-many", "powerless")} <= {*titles}
    assert list(report.lines())[-1] == f"{len(titles)} compared, all the same"


@pytest.mark.parametrize(
    "refusal", ["login failed: password=hunter2 for the host", "password: hunter2 is wrong, host: h1", "no power"]
)
async def test_masked_refusal_is_the_same_again(root: Path, tmp_path: Path, refusal: str) -> None:
    """What is masked with a secret depends on what stands around it: the manager puts a text into one of its own."""
    path = tmp_path / "recording.jsonl"
    async with asyncio.timeout(60), running_node(root, record=RecordingSettings(path)) as node:
        paths = node.config.kubelet_paths
        async with fake_plugin(RESOURCE, paths.device_plugins / "gopher.sock", [Device(DeviceId("g1"))]) as plugin:
            plugin.allocate_answer = refusing(RpcCode.INTERNAL, refusal)
            await plugin.register(paths.registration_socket)
            await node.create(pod("powerless", gophers=1, nodeName="n1"))
            await node.pod_in("powerless", "Failed")
    assert "hunter2" not in path.read_text(encoding="utf-8")
    recording = read(path)
    assert differing(await replayed(recording)) == []

    def otherwise(event: Any) -> Any:
        if isinstance(event, PodEvent) and event.step is RecordedStep.REFUSED:
            return replace(event, problem=event.problem.replace("rpc error", "an error"))
        return event

    ((title, _),) = differing(await replayed(changed(recording, otherwise)))
    assert title == "admit of pod default/powerless"


async def test_other_decisions_are_told_with_their_lines(node_recording: Recording) -> None:
    def otherwise(event: Any) -> Any:
        if isinstance(event, PodEvent) and event.step is RecordedStep.ADMITTED:
            return replace(event, devices={"c": {RESOURCE: ("g7",)}})
        if isinstance(event, PodEvent) and event.problem and "no power" not in event.problem:
            return replace(event, problem="not today")
        return event

    report = await replayed(changed(node_recording, otherwise))
    differences = dict(differing(report))
    assert differences["admit of pod default/one"] == (f"c: {RESOURCE}: g7 in the recording, g1 now",)
    [refused] = differences["admit of pod default/too-many"]
    assert refused.startswith("refused: not today in the recording, refused: requested number of devices unavailable")
    assert len(differences) == 3
    lines = {line.number: line.event for line in node_recording[1]}
    for step in report.steps:
        if step.differences:
            event = lines[int(step.title.split()[1])]
            assert isinstance(event, PodEvent)
            assert event.step is RecordedStep.ADMIT


async def test_calls_that_are_not_made_now_are_told(node_recording: Recording) -> None:
    header, lines = node_recording
    extra = next(line for line in lines if isinstance(line.event, TrafficRecord) and line.event.name == "Allocate")
    assert isinstance(extra.event, TrafficRecord)
    more = RecordedLine(999, replace(extra.event, call=999))
    report = await replayed((header, [*lines, more]))
    assert differing(report) == [(f"{RESOURCE}  Allocate", ("called in the recording, not called now",))]
    assert report.steps[-1].title.startswith("line 999  ")


async def test_calls_that_were_not_made_then_are_told(node_recording: Recording) -> None:
    header, lines = node_recording
    calls = {
        line.event.call for line in lines if isinstance(line.event, TrafficRecord) and line.event.name == "Allocate"
    }
    kept = [line for line in lines if not (isinstance(line.event, TrafficRecord) and line.event.call in calls)]
    report = await replayed((header, kept), Selection(frozenset({"Allocate"})))
    assert differing(report)[0] == (
        f"{RESOURCE}  Allocate",
        ("not called in the recording, called for g1 now",),
    )


async def test_only_what_is_selected_is_told(node_recording: Recording) -> None:
    report = await replayed(node_recording, Selection(frozenset({"Register"}), frozenset({RESOURCE})))
    assert [step.title.partition("  ")[2] for step in report.steps] == [f"{RESOURCE}  Register"]


def lines_until(node: Node, began: Callable[[], object], text: bytes) -> list[str]:
    """The lines of a recording that begins now, up to one with ``text``. Blocks."""
    with node.client.read_lines(RECORDING) as lines:
        taken = [next(lines)]
        began()
        for line in lines:
            taken.append(line)
            if text in line:
                break
    return [f"{line.decode()}\n" for line in taken]


@pytest.fixture
async def late_recording(root: Path) -> Recording:
    """It begins when pod two has g2."""
    began, loop = asyncio.Event(), asyncio.get_running_loop()
    async with asyncio.timeout(60), running_node(root) as node, gophers(node, "g1", "g2", "g3", "g4"):
        for name in ("one", "two"):
            await node.create(pod(name, gophers=1))
            await node.pod_in(name, "Running")
        await node.gone("one", gracePeriodSeconds="0")
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(
                asyncio.to_thread(lines_until, node, lambda: loop.call_soon_threadsafe(began.set), b'"prepared"')
            )
            await began.wait()
            await node.create(pod("three", gophers=2))
        for name in ("two", "three"):
            await node.gone(name, gracePeriodSeconds="0")
    header, lines = read_recording(reading.result(), "r.jsonl")
    return header, list(lines)


async def test_recording_that_begins_in_the_middle(late_recording: Recording) -> None:
    report = await replayed(late_recording)
    assert differing(report) == []
    assert "admit of pod default/three" in [step.title.partition("  ")[2] for step in report.steps]


async def test_held_device_that_is_not_listed_is_told(late_recording: Recording) -> None:
    def otherwise(event: Any) -> Any:
        if isinstance(event, PodEvent) and event.step is RecordedStep.HELD:
            return replace(event, devices={"c": {RESOURCE: ("g9",)}})
        return event

    report = await replayed(changed(late_recording, otherwise))
    [held] = [step for step in report.steps if "held by pod" in step.title]
    assert held.differences is None
    assert held.reason == (f"its devices cannot be given to it before: c: {RESOURCE}: g9 in the recording, g1 now")


class Gophers(DevicePlugin):
    resource_name = RESOURCE

    def discover(self) -> list[OfferedDevice]:
        return [OfferedDevice(f"g{number}") for number in range(8)]


@pytest.mark.parametrize("version", ["1.20", "1.31"])
async def test_stock_kubelet_is_compared_whatever_devices_it_takes(version: str) -> None:
    async with local_kubelet(as_kubelet=version, within_s=30) as kubelet:
        await kubelet.plugin(Gophers())
        pods = [await kubelet.admit({RESOURCE: 3}), await kubelet.admit({RESOURCE: 2})]
        await kubelet.end(pods[0])
        await kubelet.admit({RESOURCE: 6})
        records = tuple(kubelet.traffic.records)
    report = await replayed(recorded(records))
    assert differing(report) == []
    titles = [step.title.partition("  ")[2] for step in report.steps]
    assert titles.count(f"{RESOURCE}  Allocate") == 3
    assert titles.count(f"{RESOURCE}  Register") == 1


async def test_refusal_of_a_registration_is_compared() -> None:
    async with local_kubelet(within_s=30) as kubelet:
        refusal = kubelet.faults.refuse("not yet", times=1)
        await kubelet.plugin(Gophers(), wait=False)
        await refusal.until_used(timeout_s=30)
        await kubelet.wait_for(allocatable={RESOURCE: 8})
        records = tuple(kubelet.traffic.records)
    [(title, differences)] = differing(await replayed(recorded(records)))
    assert title == f"{RESOURCE}  Register"
    assert differences == ("rpc error: code = Unknown desc = not yet in the recording, accepted now",)


async def test_recording_without_plugins_is_refused() -> None:
    with pytest.raises(InvalidDocument, match=r"r\.jsonl: no plugin has devices in this recording"):
        await replayed(recorded([]))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"feature_gates": 3}, "'int' object is not iterable"),
        ({"numa_nodes": [2**70]}, "there is no NUMA node "),
        ({"numa_nodes": ["x"]}, "invalid literal"),
        ({"numa_nodes": [float("inf")]}, "cannot convert float infinity"),
        ({"topology_options": 1}, "'int' object is not iterable"),
        ({"topology_policy": "nope"}, 'unknown policy: "nope"'),
    ],
)
async def test_damaged_settings_are_told(settings: dict[str, Any], problem: str) -> None:
    sound = {
        "feature_gates": [],
        "topology_policy": "none",
        "topology_scope": "container",
        "topology_options": {},
        "numa_nodes": [0],
    }
    header = RecordingHeader("", is_masked=True, manager=sound | settings)
    async with local_kubelet() as kubelet:
        await kubelet.plugin(Gophers())
        records = tuple(kubelet.traffic.records)
    with pytest.raises(InvalidDocument, match=rf'r\.jsonl:1: "manager" is damaged: {problem}'):
        await replayed((header, recorded(records)[1]))


def test_events_are_those_of_the_file() -> None:
    assert {event.value for event in TrafficEvent}.isdisjoint({"pod", "full", "lost"})
