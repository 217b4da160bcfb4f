"""Records as lines for people."""

from __future__ import annotations

from plugbay.errors import RpcCode, RpcFailed
from plugbay.testing.tracing.lines import TraceLines, shown
from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.message_values import ALLOCATE, LIST_AND_WATCH

GOPHER = "example.com/gopher"


def event(
    at_s: float, event: TrafficEvent, sender: Party, method: str = ALLOCATE, message: bytes = b"", call: int = 7
) -> TrafficRecord:
    return TrafficRecord(at_s, event, sender, 1, call, GOPHER, method, message)


def lists(*devices: tuple[str, str]) -> bytes:
    return pb.ListAndWatchResponse(
        devices=[pb.Device(ID=name, health=health) for name, health in devices]
    ).SerializeToString()


def test_call_and_its_answer() -> None:
    lines = TraceLines()
    request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=["g1"])])
    answer = pb.AllocateResponse(container_responses=[pb.ContainerAllocateResponse(envs={"A": "1 2"})])
    assert lines.line(event(1.0, TrafficEvent.REQUEST, Party.KUBELET, message=request.SerializeToString())) == (
        "    1.000 s  kubelet -> plugin   example.com/gopher  Allocate #7: container_requests: [{devices_ids: [g1]}]"
    )
    assert lines.line(event(1.0025, TrafficEvent.ANSWER, Party.PLUGIN, message=answer.SerializeToString())) == (
        "    1.002 s  plugin  -> kubelet  example.com/gopher  Allocate #7 answer (2.5 ms): "
        "container_responses: [{envs: {A: '1 2'}}]"
    )
    assert lines.line(event(1.0025, TrafficEvent.END, Party.PLUGIN)) is None


def test_failure_says_code_text_and_time() -> None:
    lines = TraceLines()
    lines.line(event(1.0, TrafficEvent.REQUEST, Party.KUBELET))
    failure = RpcFailed(RpcCode.INTERNAL, "no power")
    record = TrafficRecord(2.5, TrafficEvent.END, Party.PLUGIN, 1, 7, GOPHER, ALLOCATE, failure=failure)
    assert str(lines.line(record)).endswith("Allocate #7 failed (1.50 s): rpc error: code = Internal desc = no power")


def test_list_is_told_by_what_has_changed() -> None:
    lines = TraceLines()

    def told(*devices: tuple[str, str]) -> str:
        record = event(1.0, TrafficEvent.ANSWER, Party.PLUGIN, LIST_AND_WATCH, lists(*devices))
        return str(lines.line(record)).partition(" list: ")[2]

    assert told(("g1", "Healthy"), ("g2", "Healthy")) == "2 devices: g1 Healthy, g2 Healthy"
    assert told(("g1", "Healthy"), ("g2", "Unhealthy")) == "2 devices, 1 not healthy: g2 Unhealthy"
    assert told(("g1", "Healthy"), ("g2", "Unhealthy")) == "2 devices, 1 not healthy: as before"
    assert told(("g1", "Healthy"), ("g3", "Healthy")) == "2 devices: -g2, +g3 Healthy"
    assert told(("g1", "Healthy")) == "1 device: -g3"
    assert told() == "0 devices: -g1"


def test_long_lists_and_messages_are_cut_unless_asked_for() -> None:
    message = lists(*((f"device-{number}", "Healthy") for number in range(100)))
    record = event(1.0, TrafficEvent.ANSWER, Party.PLUGIN, LIST_AND_WATCH, message)
    assert str(TraceLines().line(record)).endswith("device-7 Healthy and 92 more")
    assert "device-99" in str(TraceLines(is_full=True).line(record))
    request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=["x" * 1000])])
    record = event(1.0, TrafficEvent.REQUEST, Party.KUBELET, message=request.SerializeToString())
    line = str(TraceLines().line(record))
    assert len(line) < 600
    assert line.endswith(f"... ({len(record.message)} bytes)")


def test_message_that_cannot_be_read_is_shown_as_bytes() -> None:
    line = TraceLines().line(event(1.0, TrafficEvent.REQUEST, Party.KUBELET, message=b"\xff\x01"))
    assert str(line).endswith("Allocate #7: 2 bytes that cannot be read: ff 01")


def test_values_on_one_line() -> None:
    assert (
        shown({"a": "", "b": True, "c": ["x y", 1], "d": {"e": "f:g"}})
        == "a: '', b: true, c: ['x y', 1], d: {e: 'f:g'}"
    )
    assert shown({}) == "(empty)"
