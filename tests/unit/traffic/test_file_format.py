"""Traces as files: what is written is read again, and what is damaged is told with its line."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import InvalidDocument, RpcCode, RpcFailed
from plugbay.model.requests import ContainerKind
from plugbay.traffic.file_format import RecordLines, header_line, header_of, read_recording, read_trace
from plugbay.traffic.pod_events import PodEvent, RecordedContainer, RecordedStep
from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord
from plugbay.wire.message_values import ALLOCATE, LIST_AND_WATCH

STARTED = datetime(2026, 1, 31, 12, tzinfo=UTC)
HEADER = header_line(header_of(STARTED, is_masked=True))
GOLDEN = Path(__file__).parents[2] / "golden/testing"
A_LIST = b"\x0a\x0f\x0a\x02g1\x12\x09Unhealthy"
ANOTHER = b"\x0a\x0d\x0a\x02g1\x12\x07Healthy"
RECORDS = [
    TrafficRecord(0.0, TrafficEvent.CONNECTED, Party.KUBELET, 1, resource="example.com/gopher"),
    TrafficRecord(
        0.001, TrafficEvent.REQUEST, Party.KUBELET, 1, 7, "example.com/gopher", ALLOCATE, b"\x0a\x04\x0a\x02g1"
    ),
    TrafficRecord(0.0025, TrafficEvent.FAULT, Party.KUBELET, 1, 7, "example.com/gopher", ALLOCATE, note="hang"),
    TrafficRecord(
        0.003,
        TrafficEvent.END,
        Party.PLUGIN,
        1,
        7,
        "example.com/gopher",
        ALLOCATE,
        failure=RpcFailed(RpcCode.INTERNAL, "no power: 5 % left, über"),
    ),
]
LISTS = [
    TrafficRecord(0.004, TrafficEvent.ANSWER, Party.PLUGIN, 1, 8, "example.com/gopher", LIST_AND_WATCH, each)
    for each in (A_LIST, A_LIST + ANOTHER, ANOTHER, b"")
]
POD_EVENTS = [
    PodEvent(
        0.005,
        RecordedStep.ADMIT,
        "u-1",
        namespace="default",
        name="web",
        containers=(RecordedContainer("app", ContainerKind.APP, {"example.com/gopher": 1}),),
        running=("app",),
    ),
    PodEvent(0.006, RecordedStep.ADMITTED, "u-1", devices={"app": {"example.com/gopher": ("g1",)}}),
    PodEvent(0.007, RecordedStep.NOT_PREPARED, "u-1", container="app", problem="not today"),
    PodEvent(0.008, RecordedStep.ENDED, "u-1", container="app", instance="app-0"),
]


def record_line(event: TrafficRecord | PodEvent) -> str:
    return RecordLines().line(event)


def failed(record: TrafficRecord) -> tuple[RpcCode, str] | None:
    return None if record.failure is None else (record.failure.code, record.failure.detail)


def test_file_is_as_it_was_when_the_format_was_made() -> None:
    """A file of version 2 has to be read for ever: change this one only by additions."""
    settings = {"name": "plugbay", "numa_nodes": [0, 1]}
    header = header_line(header_of(STARTED, is_masked=True, manager=settings))
    events: list[TrafficRecord | PodEvent] = [*RECORDS, *LISTS, *POD_EVENTS]
    written = (GOLDEN / "recording.jsonl").read_text(encoding="utf-8")
    assert written == header + "".join(map(RecordLines().line, events))
    read = read_recording(written.splitlines(keepends=True), "r.jsonl")
    assert read[0].manager == settings
    assert [(each.number, str(each.event)) for each in read[1]] == [
        (number, str(each)) for number, each in enumerate(events, start=2)
    ]


def test_version_1_is_read() -> None:
    lines = (GOLDEN / "trace.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    assert list(map(str, read_trace(lines, "t.jsonl"))) == list(map(str, RECORDS))


@given(st.lists(st.lists(st.sampled_from([A_LIST, ANOTHER, b"", b"\x0a\x00"])).map(b"".join), max_size=6))
def test_lists_are_read_whole(messages: list[bytes]) -> None:
    lines = RecordLines()
    records = [replace(LISTS[0], message=each) for each in messages]
    again = read_trace([HEADER, *map(lines.line, records)], "t.jsonl")
    assert [each.message for each in again] == messages


def test_list_that_changes_little_takes_little_room() -> None:
    lines, whole = RecordLines(), ANOTHER * 5000
    lines.line(replace(LISTS[0], message=whole))
    assert len(lines.line(replace(LISTS[0], message=whole + A_LIST))) < 500


@pytest.mark.parametrize("end", range(1, 60, 7))
def test_torn_last_line_is_left_out(end: int) -> None:
    torn: list[int] = []
    lines = [HEADER, record_line(RECORDS[0]), record_line(RECORDS[1])[:end]]
    assert len(list(read_trace(lines, "t", torn=torn.append))) == 1
    assert torn == [3]
    with pytest.raises(InvalidDocument, match="t:3: this line is not JSON"):
        list(read_trace([*lines[:2], lines[2] + "\n", lines[1]], "t", torn=torn.append))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    st.builds(
        TrafficRecord,
        st.integers(0, 10**12).map(lambda us: us / 10**6),
        st.sampled_from(TrafficEvent),
        st.sampled_from(Party),
        st.integers(0, 100),
        st.integers(0, 100),
        texts,
        texts,
        st.binary(max_size=40),
        st.none() | st.builds(RpcFailed, st.sampled_from(RpcCode), texts),
        texts,
    )
)
def test_records_are_read_as_they_were_written(record: TrafficRecord) -> None:
    if record.event not in (TrafficEvent.REQUEST, TrafficEvent.ANSWER):
        record = TrafficRecord(record.at_s, record.event, record.sender, record.connection, failure=record.failure)
    [again] = read_trace([HEADER, record_line(record)], "t.jsonl")
    assert failed(again) == failed(record)
    assert [getattr(again, name) for name in ("at_s", "event", "sender", "connection", "call", "message", "note")] == [
        getattr(record, name) for name in ("at_s", "event", "sender", "connection", "call", "message", "note")
    ]


def test_name_with_half_a_character_can_be_used() -> None:
    line = record_line(RECORDS[0]).replace("gopher", "go\\uDC80\\ud83d\\ude00")
    [record] = read_trace([HEADER, line], "t")
    assert record.resource == "example.com/go?😀"


def test_unknown_records_and_members_are_left_alone() -> None:
    strange = json.dumps({"event": "tomorrow"})
    more = json.dumps({**json.loads(record_line(RECORDS[0])), "more": 1})
    assert [each.event for each in read_trace([HEADER, strange, more], "t")] == [TrafficEvent.CONNECTED]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "t.jsonl: the file is empty"),
        (["{}"], "t.jsonl:1: this is not a recording of `plugbay record` or `plugbay trace -o FILE`"),
        (["hello"], "t.jsonl:1: this line is not JSON"),
        (
            [HEADER, record_line(POD_EVENTS[0]).replace('gopher": 1', 'gopher": -1')],
            "t.jsonl:2: a container asks for -1 to -1 devices",
        ),
        ([HEADER, '{"event": "pod", "at_s": 0, "uid": "u"}'], 't.jsonl:2: "step" is missing'),
        (
            [HEADER, record_line(LISTS[0]).replace('"bytes"', '"kept": [1, 2], "bytes"')],
            "t.jsonl:2: this list says what changed, and no list of call 8 is before it",
        ),
        (["[]"], "t.jsonl:1: this line is not a JSON object"),
        (
            ['{"format": "plugbay-trace", "version": 9}'],
            "t.jsonl:1: a recording of version 9; versions 1 and 2 are read",
        ),
        ([HEADER, '{"at_s": 1' + "0" * 400 + ', "event": "end"}'], "t.jsonl:2: a value is damaged: int too large"),
        ([HEADER, '{"x": ' + "[" * 100_000 + "\n"], "t.jsonl:2: this line is nested too deep"),
        (["[" * 100_000], "t.jsonl:1: this line is nested too deep"),
        ([HEADER, '{"event": "end"}'], 't.jsonl:2: "at_s" is missing'),
        ([HEADER, record_line(RECORDS[1]).replace("CgQKAmcx", "?")], "t.jsonl:2: "),
        ([HEADER, record_line(RECORDS[3]).replace("Internal", "Odd")], "t.jsonl:2: 'Odd' is not a valid RpcCode"),
        ([HEADER, record_line(RECORDS[3]).replace('{"code"', '[{"code"').replace("}}", "}]}")], "t.jsonl:2: "),
    ],
)
def test_damage_is_told_with_its_line(lines: list[str], problem: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        list(read_trace(lines, "t.jsonl"))
    assert str(caught.value).startswith(problem)
