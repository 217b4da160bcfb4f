"""Traces as files: what is written is read again, and what is damaged is told with its line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import InvalidDocument, RpcCode, RpcFailed
from plugbay.testing.tracing.file_format import header_line, read_trace, record_line
from plugbay.testing.traffic.records import Party, TrafficEvent, TrafficRecord
from plugbay.wire.message_values import ALLOCATE

HEADER = header_line(datetime(2026, 1, 31, 12, tzinfo=UTC), is_masked=True)
GOLDEN = Path(__file__).parents[3] / "golden/testing/trace.jsonl"
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


def failed(record: TrafficRecord) -> tuple[RpcCode, str] | None:
    return None if record.failure is None else (record.failure.code, record.failure.detail)


def test_file_is_as_it_was_when_the_format_was_made() -> None:
    """A file of version 1 has to be read for ever: change this one only by additions."""
    assert GOLDEN.read_text(encoding="utf-8") == HEADER + "".join(map(record_line, RECORDS))


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


def test_unknown_records_and_members_are_left_alone() -> None:
    strange = json.dumps({"event": "tomorrow"})
    more = json.dumps({**json.loads(record_line(RECORDS[0])), "more": 1})
    assert [each.event for each in read_trace([HEADER, strange, more], "t")] == [TrafficEvent.CONNECTED]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "t.jsonl: the file is empty"),
        (["{}"], "t.jsonl:1: this is not a trace of `plugbay trace -o FILE`"),
        (["hello"], "t.jsonl:1: this line is not JSON"),
        (["[]"], "t.jsonl:1: this line is not a JSON object"),
        (['{"format": "plugbay-trace", "version": 9}'], "t.jsonl:1: a trace of version 9; version 1 is read"),
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
