"""Values to messages and back, and the bytes a Go program would write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import RpcFailed
from plugbay.model.devices import Device, ListedDevice, PluginOptions
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.model.health import Health, unhealthy, unknown
from plugbay.model.ids import DeviceId
from plugbay.wire.convert import (
    decode_edits,
    device_from_pb,
    device_to_pb,
    edits_to_pb,
    options_from_pb,
    options_to_pb,
)
from plugbay.wire.device_list import encode_devices
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb

text = st.text(max_size=20)
options = st.builds(PluginOptions, st.booleans(), st.booleans(), st.booleans(), st.booleans())
container_edits = st.builds(
    ContainerEdits,
    env=st.dictionaries(text, text, max_size=3),
    mounts=st.lists(st.builds(Mount, text, container_path=text, read_only=st.booleans()), max_size=3).map(tuple),
    device_nodes=st.lists(st.builds(DeviceNode, text, container_path=text, permissions=text), max_size=3).map(tuple),
    annotations=st.dictionaries(text, text, max_size=3),
    cdi_devices=st.lists(text, max_size=3).map(tuple),
)


@given(options)
def test_options_round_trip(value: PluginOptions) -> None:
    assert options_from_pb(options_to_pb(value)) == value


@given(container_edits)
def test_edits_round_trip(edits: ContainerEdits) -> None:
    assert decode_edits(edits_to_pb(edits).SerializeToString()) == edits


@pytest.mark.parametrize(
    ("device", "listed"),
    [
        pytest.param(Device("a"), ListedDevice(DeviceId("a"), "Healthy"), id="no-topology"),
        pytest.param(Device("a", health=unhealthy()), ListedDevice(DeviceId("a"), "Unhealthy"), id="unhealthy"),
        pytest.param(
            Device("a", health=unhealthy("Xid")), ListedDevice(DeviceId("a"), "Unhealthy", reason="Xid"), id="reason"
        ),
        pytest.param(
            Device("a", health=unknown()), ListedDevice(DeviceId("a"), "Unhealthy"), id="unknown-is-not-healthy"
        ),
        pytest.param(Device("a", numa_nodes=[1, 0]), ListedDevice(DeviceId("a"), "Healthy", (0, 1)), id="nodes-sorted"),
    ],
)
def test_a_device_as_the_manager_sees_it(device: Device, listed: ListedDevice) -> None:
    assert device_from_pb(device_to_pb(device)) == listed


def test_topology_without_nodes_differs_from_no_topology() -> None:
    assert device_from_pb(pb.Device(ID="a", topology=pb.TopologyInfo())).numa_nodes == ()


def test_numa_nodes_are_not_checked_on_reading() -> None:
    nodes = [pb.NUMANode(ID=-1), pb.NUMANode(ID=2**40)]
    assert device_from_pb(pb.Device(topology=pb.TopologyInfo(nodes=nodes))).numa_nodes == (-1, 2**40)


@pytest.mark.parametrize("broken", [b"\x0a\x05ab", b"\xff", b"\x2a\x03\x0a\x01\xff"], ids=["cut", "no-tag", "not-utf8"])
def test_broken_edits_are_refused(broken: bytes) -> None:
    with pytest.raises(RpcFailed, match="not a ContainerAllocateResponse"):
        decode_edits(broken)


# Computed by hand from the protobuf encoding: tag = number << 3 | wire type, then length and bytes.
@pytest.mark.parametrize(
    ("message", "encoded"),
    [
        pytest.param(
            encode_devices([Device("g1")]),
            b"\x0a\x0d" + b"\x0a\x02g1" + b"\x12\x07Healthy",
            id="device-list",
        ),
        pytest.param(
            encode_devices([Device("g1", health=Health(unhealthy().state), numa_nodes=[1])]),
            b"\x0a\x15" + b"\x0a\x02g1" + b"\x12\x09Unhealthy" + b"\x1a\x04\x0a\x02\x08\x01",
            id="device-with-topology",
        ),
        pytest.param(
            encode_devices([Device("g", numa_nodes=[0])]),
            b"\x0a\x10" + b"\x0a\x01g" + b"\x12\x07Healthy" + b"\x1a\x02\x0a\x00",
            id="numa-node-0-is-written-without-its-number",
        ),
        pytest.param(encode_devices([]), b"", id="no-devices"),
        pytest.param(
            edits_to_pb(ContainerEdits(env={"Gopher": "g1"})).SerializeToString(deterministic=True),
            b"\x0a\x0c" + b"\x0a\x06Gopher" + b"\x12\x02g1",
            id="env",
        ),
        pytest.param(
            edits_to_pb(
                ContainerEdits(mounts=(Mount("/h", container_path="/c", read_only=True),), cdi_devices=("v/c=d",))
            ).SerializeToString(deterministic=True),
            b"\x12\x0a" + b"\x0a\x02/c" + b"\x12\x02/h" + b"\x18\x01" + b"\x2a\x07" + b"\x0a\x05v/c=d",
            id="mount-and-cdi",
        ),
        pytest.param(
            options_to_pb(PluginOptions(True, False, True, True)).SerializeToString(deterministic=True),
            b"\x08\x01" + b"\xa8\x06\x01" + b"\xb0\x06\x01",
            id="options-101-and-102",
        ),
    ],
)
def test_bytes_on_the_wire(message: bytes, encoded: bytes) -> None:
    assert message == encoded


@pytest.mark.parametrize("reason", ["two words", "\x1b[31mRed", "x" * 64, "\u202e"])
def test_a_reason_that_is_not_a_word_is_left_out(reason: str) -> None:
    assert device_from_pb(pb.Device(ID="a", health="Unhealthy", health_reason=reason)).reason == ""
