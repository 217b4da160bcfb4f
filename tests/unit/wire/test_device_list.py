"""The reader by difference sees what plain parsing sees, whatever the messages look like."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.devices import Device, ListedDevice
from plugbay.model.health import HEALTHY, unhealthy
from plugbay.wire.convert import device_from_pb
from plugbay.wire.device_list import ChangedDevices, DeviceListReader, NewList, encode_devices
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb

UNKNOWN_FIELD = b"\xfa\x3f\x02hi"
"""Field 1023, length-delimited."""
FIRST_FIELD_AS_NUMBER = b"\x08\x07"
LONG_TAG = b"\x8a\x00\x03\x0a\x01z"
"""A device whose tag takes two bytes: legal, and written by nobody."""

ids = st.one_of(st.sampled_from(["a", "b", "c", ""]), st.text(max_size=3), st.just("x" * 128), st.just("é" * 300))
topologies = st.none() | st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), max_size=3)


@st.composite
def encoded_device(draw: st.DrawFn) -> bytes:
    device = pb.Device(ID=draw(ids), health=draw(st.sampled_from(["Healthy", "Unhealthy", "", "healthy"])))
    nodes = draw(topologies)
    if nodes is not None:
        device.topology.SetInParent()
        for node in nodes:
            device.topology.nodes.add(ID=node)
    return device.SerializeToString() + draw(st.sampled_from([b"", b"", UNKNOWN_FIELD]))


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Device lists as bytes, now and then with fields we do not know between the devices."""
    parts: list[bytes] = []
    for device in draw(st.lists(encoded_device(), max_size=6)):
        parts += [b"\x0a", varint(len(device)), device]
        parts.append(draw(st.sampled_from([b"", b"", b"", UNKNOWN_FIELD, FIRST_FIELD_AS_NUMBER, LONG_TAG])))
    return b"".join(parts)


@st.composite
def edited(draw: st.DrawFn) -> list[bytes]:
    """Messages each of which is the one before with some devices, or a byte, changed, put in, or left out."""
    devices = draw(st.lists(encoded_device(), max_size=12))
    sequence = [joined(devices)]
    for _ in range(draw(st.integers(1, 6))):
        first = draw(st.integers(0, len(devices)))
        last = draw(st.integers(first, min(len(devices), first + 3)))
        # What looks like devices inside of one, too.
        tricky = st.just(pb.Device(ID=joined(devices[:2]).decode(errors="ignore")).SerializeToString())
        devices[first:last] = draw(st.lists(encoded_device() | st.sampled_from([*devices, b""]) | tricky, max_size=3))
        message = joined(devices)
        if message and draw(st.integers(0, 4)) == 0:
            at = draw(st.integers(0, len(message) - 1))
            message = message[:at] + draw(st.binary(max_size=2)) + message[at + 1 :]
        sequence.append(message)
    return sequence


def joined(devices: list[bytes]) -> bytes:
    return b"".join(b"\x0a" + varint(len(device)) + device for device in devices)


@given(st.lists(messages() | st.binary(max_size=12), min_size=1, max_size=8) | edited())
@example([b"\x0a\x00", b"\x0a\x00\x0a\x00", b""])
def test_reads_what_plain_parsing_reads(sequence: list[bytes]) -> None:
    reader = DeviceListReader()
    seen: list[ListedDevice] = []
    for message in sequence:
        try:
            expected = [device_from_pb(device) for device in pb.ListAndWatchResponse.FromString(message).devices]
        except DecodeError:
            with pytest.raises(RpcFailed):
                reader.read(message)
            continue  # a bad message changes nothing: the next one is compared with the last good one
        update = reader.read(message)
        seen = applied(seen, update)
        assert seen == expected


def applied(before: list[ListedDevice], update: NewList | ChangedDevices) -> list[ListedDevice]:
    """What a manager knows after ``update``; a change must name devices of before, each of them once."""
    if isinstance(update, NewList):
        return list(update.devices)
    changed = {device.id: device for device in update.devices}
    known = [device.id for device in before]
    assert len(known) == len(set(known))
    assert changed.keys() <= set(known)
    return [changed.get(device.id, device) for device in before]


def test_the_first_list_is_new_even_when_empty() -> None:
    assert DeviceListReader().read(b"") == NewList(())


def test_a_health_change_names_only_the_device() -> None:
    reader = DeviceListReader()
    reader.read(encode_devices([Device("a"), Device("b")]))
    update = reader.read(encode_devices([Device("a"), Device("b", health=unhealthy())]))
    assert isinstance(update, ChangedDevices)
    assert [(device.id, device.health) for device in update.devices] == [("b", "Unhealthy")]


def test_the_same_list_again_changes_nothing() -> None:
    reader = DeviceListReader()
    reader.read(encode_devices([Device("a")]))
    assert reader.read(encode_devices([Device("a")])) == ChangedDevices([])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("ab", "abc", id="added"),
        pytest.param("ab", "a", id="removed"),
        pytest.param("ab", "ac", id="replaced"),
        pytest.param("ab", "ba", id="other-order"),
        pytest.param("aa", "aa", id="an-id-twice"),
        pytest.param("a", "", id="emptied"),
    ],
)
def test_other_devices_are_a_new_list(before: str, after: str) -> None:
    reader = DeviceListReader()
    reader.read(encode_devices([Device(name) for name in before]))
    update = reader.read(encode_devices([Device(name) for name in after]))
    assert isinstance(update, NewList)
    assert [device.id for device in update.devices] == list(after)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(b"\x0a\x05ab", id="cut"),
        pytest.param(b"\xff", id="no-tag"),
        pytest.param(b"\x0a\x03\x0a\x01\xff", id="not-utf8"),
        pytest.param(b"\x0a\x03\x0a\x01b\x0a\x02\x0a\x05", id="second-device-cut"),
    ],
)
def test_a_bad_message_is_refused_whole(broken: bytes) -> None:
    reader = DeviceListReader()
    reader.read(encode_devices([Device("a"), Device("b")]))
    with pytest.raises(RpcFailed) as refusal:
        reader.read(broken)
    assert refusal.value.code is RpcCode.INTERNAL
    assert reader.read(encode_devices([Device("a"), Device("b", health=HEALTHY)])) == ChangedDevices([])


def test_a_change_among_many_is_read_where_it_is() -> None:
    reader = DeviceListReader()
    names = [f"unit-{number:05}" for number in range(1000)]
    reader.read(encode_devices(Device(name) for name in names))
    for name in (names[0], names[500], names[-1]):
        for health in (unhealthy(), HEALTHY):
            update = reader.read(
                encode_devices(Device(each, health=health if each == name else HEALTHY) for each in names)
            )
            assert isinstance(update, ChangedDevices)
            assert [device.id for device in update.devices] == [name]


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
