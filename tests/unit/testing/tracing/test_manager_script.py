"""The script of a replay to a manager, the pods that are made of a kubelet's calls, and damaged recordings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import InvalidDocument, RpcCode, RpcFailed
from plugbay.testing.tracing.manager.derived_pods import Call, derived_pods
from plugbay.testing.tracing.manager.script import PluginAct, PluginTurn, PodTurn, RecordedCall, script_of
from plugbay.traffic.file_format import RecordedLine, read_recording
from plugbay.traffic.pod_events import RecordedStep
from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.message_values import ALLOCATE, LIST_AND_WATCH

GOLDEN = Path(__file__).parents[3] / "golden/testing/recording.jsonl"
IDS = range(1000)
LINES = GOLDEN.read_text(encoding="utf-8").splitlines(keepends=True)
GOPHER = "example.com/gopher"
SERVICE = "/v1beta1.DevicePlugin/"


def call(line: int, name: str, *devices: str, failure: RpcFailed | None = None, resource: str = GOPHER) -> Call:
    requests = {
        "GetPreferredAllocation": pb.PreferredAllocationRequest(),
        "Allocate": pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=devices)]),
        "PreStartContainer": pb.PreStartContainerRequest(devices_ids=devices),
        "PostStopContainer": pb.PostStopContainerRequest(devices_ids=devices),
        "Deallocate": pb.DeallocateRequest(container_requests=[pb.ContainerDeallocateRequest(devices_ids=devices)]),
    }
    return line, f"{SERVICE}{name}", resource, requests[name].SerializeToString(), failure


def steps(*calls: Call) -> list[tuple[int, str, str, str]]:
    """Line, question, pod, and answer."""
    return [
        (line, question.step.value, question.uid, "" if answer is None else answer.step.value)
        for line, question, answer, _ in derived_pods(calls)
    ]


def test_each_allocate_is_a_pod_that_ends_before_another_gets_its_device() -> None:
    assert steps(call(1, "Allocate", "a", "b"), call(2, "Allocate", "c"), call(3, "Allocate", "b")) == [
        (1, "admit", "pod-of-line-1", "admitted"),
        (2, "admit", "pod-of-line-2", "admitted"),
        (3, "ended", "pod-of-line-1", ""),
        (3, "release", "pod-of-line-1", "released"),
        (3, "admit", "pod-of-line-3", "admitted"),
    ]


def test_devices_of_other_resources_are_others() -> None:
    other = call(2, "Allocate", "a", resource="example.com/other")
    assert [each[1] for each in steps(call(1, "Allocate", "a"), other)] == ["admit", "admit"]


def test_calls_around_allocate_are_those_of_its_pod() -> None:
    failure = RpcFailed(RpcCode.INTERNAL, "no power")
    assert steps(
        call(1, "GetPreferredAllocation"),
        call(3, "Allocate", "a"),
        call(5, "PreStartContainer", "a", failure=failure),
        call(7, "PreStartContainer", "a"),
        call(9, "PostStopContainer", "a"),
        call(11, "Deallocate", "a"),
        call(13, "PreStartContainer", "a"),
        call(15, "Allocate", "a", failure=failure),
        call(17, "Allocate", "a"),
    ) == [
        (1, "admit", "pod-of-line-3", "admitted"),
        (5, "prepare", "pod-of-line-3", "not prepared"),
        (7, "prepare", "pod-of-line-3", "prepared"),
        (9, "ended", "pod-of-line-3", ""),
        (11, "ended", "pod-of-line-3", ""),
        (11, "release", "pod-of-line-3", "released"),
        (15, "admit", "pod-of-line-15", "refused"),
        (17, "admit", "pod-of-line-17", "admitted"),
    ]


def test_script_has_turns_and_calls_with_their_lines() -> None:
    script = script_of(read_recording(LINES, "r")[1], "r")
    turns = [(turn.line, turn.act if isinstance(turn, PluginTurn) else turn.event.step) for turn in script.turns]
    assert turns == [
        (6, PluginAct.REGISTER),
        *((line, PluginAct.LIST) for line in (6, 7, 8, 9)),
        (10, RecordedStep.ADMIT),
        (13, RecordedStep.ENDED),
    ]
    [admission] = [turn for turn in script.turns if isinstance(turn, PodTurn) and turn.event.step is RecordedStep.ADMIT]
    assert (admission.until_line, admission.is_derived) == (11, False)
    assert [(each.line, each.method, each.answer, str(each.failure)) for each in script.calls] == [
        (3, ALLOCATE, None, "rpc error: code = Internal desc = no power: 5 % left, über")
    ]
    assert isinstance(script.calls[0], RecordedCall)


def test_lists_are_kept_by_their_differences() -> None:
    lists = [
        pb.ListAndWatchResponse(
            devices=[pb.Device(ID=f"g{each:04}", health="Unhealthy" if each == sick else "Healthy") for each in IDS]
        ).SerializeToString()
        for sick in IDS[::50]
    ]
    passed = [
        TrafficRecord(0.0, TrafficEvent.ANSWER, Party.PLUGIN, 1, call, resource, LIST_AND_WATCH, message)
        for message in lists
        for call, resource in ((1, GOPHER), (2, "example.com/mole"))
    ]
    script = script_of((RecordedLine(line, each) for line, each in enumerate(passed, start=2)), "r")
    found: dict[str, list[bytes]] = {GOPHER: [], "example.com/mole": []}
    kept = 0
    for turn in script.turns:
        if isinstance(turn, PluginTurn) and turn.list is not None:
            before = found[turn.resource][-1] if found[turn.resource] else b""
            found[turn.resource].append(turn.list.whole(before))
            kept += len(turn.list.between)
    assert found == {GOPHER: lists, "example.com/mole": lists}
    assert kept < 4 * len(lists[0])


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from leaves(child, (*path, key))


PLACES = [(number, path) for number, line in enumerate(LINES) for path in leaves(json.loads(line))]
VALUES: list[Any] = [None, -1, 2**70, 1.5, "", "x", "\x1b[31m", "Cg==", True, [], {}, [1], {"a": 1}, [[0], {}]]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_damaged_recording_is_read_or_refused(value: Any) -> None:
    for number, path in PLACES:
        content = json.loads(LINES[number])
        inner = content
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        lines = [*LINES]
        lines[number] = json.dumps(content) + "\n"
        with suppress(InvalidDocument):  # any other error fails the test
            script_of(read_recording(lines, "r")[1], "r")


@pytest.mark.parametrize("name", ["Allocate", "Deallocate", "PreStartContainer", "PostStopContainer"])
def test_requests_that_cannot_be_read_have_no_devices(name: str) -> None:
    assert [*derived_pods([(1, f"{SERVICE}{name}", GOPHER, b"\xff", None)])][1:] == []
