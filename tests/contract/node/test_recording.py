"""Recordings of a node of ours: from its start, and of one that runs already."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from plugbay.cli.testing.recorded_node import keep_lines
from plugbay.model.devices import Device
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.node.api.recording.routes import RECORDING, WaitingRecords
from plugbay.testing.fakes.plugin import FakePlugin
from plugbay.traffic.file import RecordingFile, RecordingSettings
from plugbay.traffic.file_format import LOST, read_recording
from plugbay.traffic.pod_events import PodEvent, RecordedStep
from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord
from tests.contract.conftest import Done, Plugbay
from tests.contract.node.test_access import node_with_api
from tests.contract.rigs.node_run import RESOURCE, gophers, pod, root, running_node
from tests.contract.testing.tracing.test_trace_command import PLUGBAY, end, start

__all__ = ["root"]
HELD_POD = [RecordedStep.ADMIT, RecordedStep.ADMITTED, RecordedStep.PREPARE, RecordedStep.PREPARED]
GONE_POD = [*HELD_POD, RecordedStep.ENDED, RecordedStep.RELEASE, RecordedStep.RELEASED]


def events_of(path: Path) -> list[TrafficRecord | PodEvent]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        return [line.event for line in read_recording(lines, str(path))[1]]


def steps_of(events: list[TrafficRecord | PodEvent], uid: str) -> list[RecordedStep]:
    """The steps of a pod in order, each once: the end of a container may be told twice."""
    return list(dict.fromkeys(event.step for event in events if isinstance(event, PodEvent) and event.uid == uid))


def requests_of(events: list[TrafficRecord | PodEvent]) -> list[str]:
    requests = [each for each in events if isinstance(each, TrafficRecord) and each.event is TrafficEvent.REQUEST]
    return [each.name for each in requests]


def with_secret(plugin: FakePlugin) -> None:
    async def allocate(devices: object) -> ContainerEdits:
        return ContainerEdits(env={"COLOUR": "red", "API_TOKEN": "geheim"})

    plugin.allocate_answer = allocate


async def test_node_records_from_its_start(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    async with asyncio.timeout(40), running_node(root, record=RecordingSettings(path)) as node:
        async with gophers(node, "g1", "g2") as plugin:
            with_secret(plugin)
            manifest = pod("holder", "sh", "-c", "exec sleep 1000 # geheim", gophers=1)
            manifest["metadata"]["annotations"] = {"example.com/login": "geheim"}
            manifest["spec"]["containers"][0]["env"] = [{"name": "LOGIN", "value": "geheim"}]
            await node.create(manifest)
            holder = await node.pod_in("holder", "Running")
            await node.create(pod("too-many", gophers=9, nodeName="n1"))
            refused = await node.pod_in("too-many", "Failed")
            plugin.send([Device(DeviceId("g1")), Device(DeviceId("g3"))])
            await node.gone("holder", gracePeriodSeconds="0")
    assert "geheim" not in path.read_text()
    header = json.loads(path.read_text().partition("\n")[0])
    assert header["manager"]["name"] == "plugbay"
    assert header["manager"]["topology_policy"] == "none"
    events = events_of(path)
    assert requests_of(events)[:3] == ["Register", "GetDevicePluginOptions", "ListAndWatch"]
    assert requests_of(events).count("Allocate") == 1
    assert steps_of(events, holder["metadata"]["uid"]) == GONE_POD
    assert steps_of(events, refused["metadata"]["uid"])[:2] == [RecordedStep.ADMIT, RecordedStep.REFUSED]
    [admitted] = [each for each in events if isinstance(each, PodEvent) and each.step is RecordedStep.ADMITTED]
    assert admitted.devices == {"c": {RESOURCE: ("g1",)}}
    assert [each.at_s for each in events] == sorted(each.at_s for each in events)


async def test_running_node_is_recorded_with_what_it_has(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    async with (
        asyncio.timeout(60),
        AsyncExitStack() as stack,
        running_node(root) as node,
        gophers(node, "g1", "g2") as plugin,
    ):
        await node.create(pod("before", gophers=1))
        before = await node.pod_in("before", "Running")
        process = await stack.enter_async_context(start(*PLUGBAY, "record", "-o", str(path), "--root", str(root)))
        await until_written(path, '"held"')
        with_secret(plugin)
        await node.create(pod("later", gophers=1))
        later = await node.pod_in("later", "Running")
        plugin.send([Device(DeviceId("g1")), Device(DeviceId("g2")), Device(DeviceId("g3"))])
        await until_written(path, "g3")
        done = await end(process)
        assert (done.code, done.out) == (0, "")
        assert f"records are in {path}\n" in done.err
        for name in ("later", "before"):  # the node goes on
            await node.gone(name, gracePeriodSeconds="0")
    assert "geheim" not in path.read_text()
    events = events_of(path)
    assert requests_of(events) == ["Register", "GetDevicePluginOptions", "ListAndWatch", "Allocate"]
    assert steps_of(events, before["metadata"]["uid"]) == [RecordedStep.HELD]
    assert steps_of(events, later["metadata"]["uid"]) == HELD_POD
    lists = [
        each
        for each in events
        if isinstance(each, TrafficRecord) and each.name == "ListAndWatch" and each.event is TrafficEvent.ANSWER
    ]
    assert [[device["ID"] for device in (each.value or {})["devices"]] for each in lists] == [
        ["g1", "g2"],
        ["g1", "g2", "g3"],
    ]
    assert all(each.at_s >= 0 for each in events)


async def test_recording_ends_with_its_node(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    async with AsyncExitStack() as stack:
        async with running_node(root):
            words = ("record", "-o", str(path), "--root", str(root), "--unmasked")
            process = await stack.enter_async_context(start(*PLUGBAY, *words))
            await until_written(path, '"masked": false')
        async with asyncio.timeout(30):
            done = Done((await process.wait()), *(each.decode() for each in await process.communicate()))
    assert (done.code, "the node ended the recording" in done.err) == (0, True)


async def test_killed_recorder_leaves_a_recording(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    async with AsyncExitStack() as stack, asyncio.timeout(60), running_node(root) as node, gophers(node, "g1"):
        process = await stack.enter_async_context(start(*PLUGBAY, "record", "-o", str(path), "--root", str(root)))
        await until_written(path, "ListAndWatch")
        await end(process, signal.SIGKILL)
        assert requests_of(events_of(path)) == ["Register", "GetDevicePluginOptions", "ListAndWatch"]


async def test_full_disk_ends_the_recording_with_a_sentence(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    async with running_node(root) as node, start(*PLUGBAY, "record", "-o", str(path), "--root", str(root)) as process:
        await until_written(path, '"masked"')
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (path.stat().st_size, resource.RLIM_INFINITY))
        async with asyncio.timeout(30), gophers(node, "g1"):
            done = Done((await process.wait()), *(each.decode() for each in await process.communicate()))
    assert done.code == 1
    assert done.err.splitlines()[-2:] == [
        f"0 records are in {path}",
        f"plugbay: error: {path}: cannot be written: File too large",
    ]


async def test_full_file_ends_the_recording_and_not_the_node(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "recording.jsonl"
    settings = RecordingSettings(path, most_bytes=4096)
    async with asyncio.timeout(40), running_node(root, record=settings) as node:
        async with gophers(node, *(f"gopher-{number}" for number in range(200))):
            await node.create(pod("holder", gophers=1))
            await node.pod_in("holder", "Running")
            await node.gone("holder", gracePeriodSeconds="0")
    assert path.stat().st_size <= 4096
    assert path.read_text().endswith('\n{"event": "full"}\n')
    assert caplog.text.count("the recording ends here, the node goes on") == 1


async def test_lost_records_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "recording.jsonl"
    with RecordingFile(path, None) as file:
        keep_lines([b"{}", LOST.encode().rstrip()], file)
    assert path.read_text() == "{}\n" + LOST
    assert "could not be written as fast" in capsys.readouterr().err


async def test_client_that_is_too_slow_loses_its_recording_and_no_memory() -> None:
    record = TrafficRecord(0, TrafficEvent.ANSWER, Party.PLUGIN, 1, message=b"x" * 1000)
    waiting = WaitingRecords(most_bytes=5000)
    for _ in range(100):
        waiting.put(record)
    assert [await waiting.get() for _ in range(3)] == [record, record, None]
    waiting.put(record)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await waiting.get()


async def test_api_over_tcp_has_no_recording(root: Path) -> None:
    async with node_with_api(root) as way:
        status, _ = await asyncio.to_thread(way.ask, RECORDING)
    assert status == 404


async def until_written(path: Path, text: str) -> None:
    async with asyncio.timeout(30):
        while not path.exists() or text not in path.read_text():  # noqa: ASYNC110  another process writes
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--root", "{}"], "the kubelet here is not a node of plugbay, and its sockets cannot be listened to"),
        (["--root", "{}/nothing"], "no plugbay node answers at {}/nothing"),
    ],
)
async def test_what_is_no_node_of_ours_is_told(
    tmp_path: Path, plugbay: Plugbay, words: list[str], problem: str
) -> None:
    (tmp_path / "device-plugins").mkdir()
    with socket.socket(socket.AF_UNIX) as kubelet:
        kubelet.bind(str(tmp_path / "device-plugins/kubelet.sock"))
    said = [word.replace("{}", str(tmp_path)) for word in words]
    code, out, err = await plugbay("record", "-o", str(tmp_path / "r.jsonl"), *said)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert problem.replace("{}", str(tmp_path)) in err
    assert not (tmp_path / "r.jsonl").exists()
