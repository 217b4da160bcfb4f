"""Messages as plain values, and stripped of what an old kubelet does not heed."""

from __future__ import annotations

import pytest

from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.message_values import ALLOCATE, LIST_AND_WATCH, METHODS, REGISTER, message_value, without_newer_fields

UNKNOWN_NUMBER = b"\xc0\x3e\x05"
UNKNOWN_TEXT = b"\xca\x3e\x02hi"
ANSWER = pb.AllocateResponse(
    container_responses=[
        pb.ContainerAllocateResponse(
            envs={"B": "2", "A": "1"},
            mounts=[pb.Mount(container_path="/c", host_path="/h", read_only=True)],
            cdi_devices=[pb.CDIDevice(name="v/c=d")],
        )
    ]
)


def test_message_is_told_by_field_names() -> None:
    assert message_value(ALLOCATE, ANSWER.SerializeToString(), is_answer=True) == {
        "container_responses": [
            {
                "envs": {"A": "1", "B": "2"},
                "mounts": [{"container_path": "/c", "host_path": "/h", "read_only": True}],
                "cdi_devices": [{"name": "v/c=d"}],
            }
        ]
    }


def test_numa_nodes_and_enums_are_told() -> None:
    devices = pb.ListAndWatchResponse(
        devices=[pb.Device(ID="g1", health="Healthy", topology=pb.TopologyInfo(nodes=[pb.NUMANode(ID=1)]))]
    )
    assert message_value(LIST_AND_WATCH, devices.SerializeToString(), is_answer=True) == {
        "devices": [{"ID": "g1", "health": "Healthy", "topology": {"nodes": [{"ID": 1}]}}]
    }
    release = pb.DeallocateRequest(container_requests=[pb.ContainerDeallocateRequest(reason=pb.POD_ENDED)])
    assert message_value("/v1beta1.DevicePlugin/Deallocate", release.SerializeToString(), is_answer=False) == {
        "container_requests": [{"reason": "POD_ENDED"}]
    }


def test_unknown_fields_are_told_by_their_numbers() -> None:
    encoded = pb.RegisterRequest(version="v1beta1").SerializeToString() + UNKNOWN_NUMBER + UNKNOWN_TEXT
    assert message_value(REGISTER, encoded, is_answer=False) == {
        "version": "v1beta1",
        "unknown field 1000": [5],
        "unknown field 1001": ["hi"],
    }


@pytest.mark.parametrize("path", METHODS)
@pytest.mark.parametrize("is_answer", [False, True])
def test_empty_message_of_every_method_has_no_fields(path: str, is_answer: bool) -> None:
    assert message_value(path, b"", is_answer=is_answer) == {}


@pytest.mark.parametrize(("path", "encoded"), [(ALLOCATE, b"\xff"), ("/other.Service/Method", b"")])
def test_what_cannot_be_read_has_no_value_and_is_never_stripped(path: str, encoded: bytes) -> None:
    assert message_value(path, encoded, is_answer=True) is None
    assert without_newer_fields(path, encoded, None, is_answer=True) == encoded


@pytest.mark.parametrize(("version", "names"), [((1, 28), []), ((1, 29), ["v/c=d"]), (None, ["v/c=d"])])
def test_cdi_names_came_with_a_version(version: tuple[int, int] | None, names: list[str]) -> None:
    stripped = without_newer_fields(ALLOCATE, ANSWER.SerializeToString(), version, is_answer=True)
    [container] = pb.AllocateResponse.FromString(stripped).container_responses
    assert [each.name for each in container.cdi_devices] == names
    assert dict(container.envs) == {"A": "1", "B": "2"}


def test_fields_that_no_kubelet_has_are_stripped_and_unknown_ones_survive() -> None:
    device = pb.Device(ID="g1", health="Unhealthy", health_reason="Broken")
    encoded = pb.ListAndWatchResponse(devices=[device]).SerializeToString() + UNKNOWN_NUMBER
    stripped = without_newer_fields(LIST_AND_WATCH, encoded, None, is_answer=True)
    assert message_value(LIST_AND_WATCH, stripped, is_answer=True) == {
        "devices": [{"ID": "g1", "health": "Unhealthy"}],
        "unknown field 1000": [5],
    }


def test_message_without_newer_fields_keeps_its_bytes() -> None:
    encoded = UNKNOWN_NUMBER + pb.Empty().SerializeToString()
    assert without_newer_fields(REGISTER, encoded, (1, 20), is_answer=False) is encoded
