"""The plan of a replay, and the comparison of answers."""

from __future__ import annotations

import pytest

from plugbay.errors import InvalidDocument, RpcCode, RpcFailed
from plugbay.testing.tracing.comparing import compare_call, compare_registration
from plugbay.testing.tracing.replay_plan import ReplayedCall, plan_of
from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord
from plugbay.traffic.secret_texts import masked_text
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.message_values import ALLOCATE, LIST_AND_WATCH, REGISTER

GOPHER, OTHER = "example.com/gopher", "example.com/other"
OPTIONS = "/v1beta1.DevicePlugin/GetDevicePluginOptions"
NO_POWER = RpcFailed(RpcCode.INTERNAL, "no power")


class Written:
    """A trace that a test writes."""

    def __init__(self) -> None:
        self.records: list[TrafficRecord] = []
        self._calls = 0

    def put(
        self,
        event: TrafficEvent,
        sender: Party,
        call: int,
        resource: str,
        method: str,
        *,
        message: bytes = b"",
        failure: RpcFailed | None = None,
    ) -> None:
        record = TrafficRecord(0.0, event, sender, 1, call, resource, method, message, failure)
        self.records.append(record)

    def register(self, resource: str = GOPHER, refusal: RpcFailed | None = None, *, is_dialled: bool = True) -> None:
        self._calls += 1
        number = self._calls
        self.put(TrafficEvent.REQUEST, Party.PLUGIN, number, resource, REGISTER)
        if is_dialled:
            self.call(OPTIONS, b"", resource=resource)
        self.put(TrafficEvent.END, Party.KUBELET, number, resource, REGISTER, failure=refusal)

    def call(
        self, method: str, *answers: bytes, resource: str = GOPHER, failure: RpcFailed | None = None, ends: bool = True
    ) -> int:
        self._calls += 1
        self.put(TrafficEvent.REQUEST, Party.KUBELET, self._calls, resource, method, message=b"?")
        for answer in answers:
            self.put(TrafficEvent.ANSWER, Party.PLUGIN, self._calls, resource, method, message=answer)
        sender = Party.PLUGIN if ends else Party.KUBELET
        self.put(TrafficEvent.END, sender, self._calls, resource, method, failure=failure)
        return self._calls


def test_lives_begin_where_a_resource_registers_again() -> None:
    trace = Written()
    trace.register(GOPHER)
    trace.register(OTHER)
    first = trace.call(ALLOCATE, b"one")
    second = trace.call(ALLOCATE, b"two", resource=OTHER)
    trace.register(OTHER)
    trace.register(GOPHER)
    third = trace.call(ALLOCATE, b"three")
    lives = plan_of(trace.records, "t")
    assert [[each.resource for each in life.registrations] for life in lives] == [[GOPHER, OTHER], [OTHER, GOPHER]]
    assert [[call.number for call in life.calls] for life in lives] == [[first, second], [third]]
    assert [[call.method for call in each.dialled] for each in lives[0].registrations] == [[OPTIONS], [OPTIONS]]


def test_resource_that_was_refused_comes_again_in_the_same_life() -> None:
    trace = Written()
    trace.register(GOPHER)
    trace.register(OTHER, refusal=RpcFailed(RpcCode.UNKNOWN, "no"), is_dialled=False)
    trace.register(OTHER)
    trace.register(OTHER)
    trace.register(GOPHER)
    lives = plan_of(trace.records, "t")
    assert [[(each.resource, each.refusal is None) for each in life.registrations] for life in lives] == [
        [(GOPHER, True), (OTHER, False), (OTHER, True)],
        [(OTHER, True), (GOPHER, True)],
    ]


def test_registration_that_got_no_answer_is_not_accepted() -> None:
    trace = Written()
    trace.register(is_dialled=False)
    trace.records.pop()
    trace.put(TrafficEvent.END, Party.PLUGIN, 1, GOPHER, REGISTER, failure=RpcFailed(RpcCode.CANCELLED, "given up"))
    trace.register()
    [life] = plan_of(trace.records, "t")
    assert [each.is_accepted for each in life.registrations] == [False, True]


def test_calls_that_the_plugin_did_not_end_are_not_compared() -> None:
    trace = Written()
    trace.register()
    trace.call(ALLOCATE, ends=False)
    trace.call(ALLOCATE, failure=NO_POWER)
    trace.call(LIST_AND_WATCH, b"", failure=NO_POWER)
    [life] = plan_of(trace.records, "t")
    assert [(call.is_answered, call.failure) for call in life.calls] == [(False, None), (True, NO_POWER), (True, None)]


def test_trace_without_registration_cannot_be_replayed() -> None:
    trace = Written()
    trace.call(ALLOCATE, b"")
    with pytest.raises(InvalidDocument, match="no plugin registers in this trace"):
        plan_of(trace.records, "t")


def test_plugin_that_was_found_by_its_socket_cannot_be_replayed() -> None:
    trace = Written()
    trace.call("/pluginregistration.Registration/GetInfo", b"")
    with pytest.raises(InvalidDocument, match="only plugins that call Register can be replayed"):
        plan_of(trace.records, "t")


def test_name_of_the_socket_is_free() -> None:
    before = pb.RegisterRequest(version="v1beta1", endpoint="a.sock", resource_name=GOPHER)
    now = pb.RegisterRequest(version="v1beta2", endpoint="b.sock", resource_name=GOPHER)
    now.options.pre_start_required = True
    assert compare_registration(before.SerializeToString(), now.SerializeToString()) == [
        'version: "v1beta1" in the recording, "v1beta2" now',
        'options: nothing in the recording, {"pre_start_required": true} now',
    ]


def allocated(**envs: str) -> bytes:
    return pb.AllocateResponse(container_responses=[pb.ContainerAllocateResponse(envs=envs)]).SerializeToString()


@pytest.mark.parametrize("resources", [(), (GOPHER,)])
def test_trace_that_begins_amid_a_registration_has_none(resources: tuple[str, ...]) -> None:
    trace = Written()
    trace.register()
    with pytest.raises(InvalidDocument, match="no plugin registers in this trace, so nothing can be replayed"):
        plan_of(trace.records[1:], "t", resources=resources)


def recorded(answer: bytes | None, failure: RpcFailed | None = None, method: str = ALLOCATE) -> ReplayedCall:
    return ReplayedCall(7, method, GOPHER, b"", answer, failure, True)


def test_answers_are_the_same_whatever_the_order_of_their_bytes() -> None:
    assert compare_call(recorded(allocated(A="1", B="2")), allocated(B="2", A="1"), None) == []


def test_only_the_first_list_of_a_call_is_kept() -> None:
    trace = Written()
    trace.register()
    trace.call(LIST_AND_WATCH, b"first", b"second", b"third")
    [life] = plan_of(trace.records, "t")
    assert life.calls[0].answer == b"first"


def test_masked_values_are_the_same_as_any() -> None:
    assert compare_call(recorded(allocated(TOKEN="***")), allocated(TOKEN="geheim"), None) == []
    assert compare_call(recorded(allocated(TOKEN="***")), allocated(), None) != []


def test_failure_with_a_secret_is_the_same_however_its_text_begins() -> None:
    """The whole line behind a name is masked, and the name begins no line any more behind the words of gRPC."""
    said = "password: geheim is wrong, host: h1"
    before = recorded(None, RpcFailed(RpcCode.INTERNAL, masked_text(said)))
    assert compare_call(before, None, RpcFailed(RpcCode.INTERNAL, said)) == []
    assert compare_call(before, None, RpcFailed(RpcCode.UNKNOWN, said)) != []


def test_failures_differ_by_code_and_text() -> None:
    assert compare_call(recorded(None, NO_POWER), None, RpcFailed(RpcCode.INTERNAL, "no power")) == []
    [difference] = compare_call(recorded(None, NO_POWER), None, RpcFailed(RpcCode.UNKNOWN, "no power"))
    assert difference.startswith("a failure (rpc error: code = Internal desc = no power) in the recording, a failure (")
    [difference] = compare_call(recorded(allocated(A="1")), None, NO_POWER)
    assert difference.startswith("an answer in the recording, a failure (rpc error: code = Internal")


def test_order_of_listed_devices_is_free() -> None:
    devices = [pb.Device(ID="g1", health="Healthy"), pb.Device(ID="g2", health="Unhealthy")]
    before = pb.ListAndWatchResponse(devices=devices).SerializeToString()
    now = pb.ListAndWatchResponse(devices=devices[::-1]).SerializeToString()
    assert compare_call(recorded(before, method=LIST_AND_WATCH), now, None) == []


def test_many_differences_are_counted() -> None:
    before, now = (allocated(**{f"V{number:03}": value for number in range(100)}) for value in ("red", "blue"))
    differences = compare_call(recorded(before), now, None)
    assert len(differences) == 21
    assert differences[-1] == "and 80 more differences"


def test_answers_that_cannot_be_read_are_compared_as_they_are_masked() -> None:
    assert compare_call(recorded(b"\xff\xff"), b"\xff\xfe", None) == []
    assert compare_call(recorded(b"\xff"), b"\xff\xfe", None) == [
        'the message: "bytes ff" in the recording, "bytes ffff" now'
    ]
