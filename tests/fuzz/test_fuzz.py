"""Bytes from outside, mutated: whatever comes in, what comes out is a value or the one error that is promised.

Each target has a corpus, where the input of every failure that was ever found stays. `make test` runs the same
mutations every time, `make soak` many new ones.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from plugbay.allocation.table import DeviceTable
from plugbay.errors import CorruptCheckpoint, RegistrationRefused, RpcFailed
from plugbay.kubelet.checkpoint import encode, load, parse
from plugbay.manager.checkpoint.foreign import imported_state
from plugbay.manager.endpoints.registration import check_registration
from plugbay.model.devices import ListedDevice
from plugbay.model.ids import is_extended_resource
from plugbay.wire.device_list import ChangedDevices, DeviceListReader, NewList
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.plugin_versions import API_VERSIONS
from plugbay.wire.registration import Registration

CORPUS: Final = Path(__file__).with_name("corpus")
GOLDEN: Final = Path(__file__).parents[1] / "golden" / "checkpoints"
TELLING: Final = (
    *(b"\x00", b"\x0a", b"\x0a\x00", b"\x80", b"\xff", b"\xff" * 9 + b"\x01", b"\x7f\xff\xff\xff", b"\xc0\xaf"),
    *(b"null", b"{}", b"[]", b'""', b'"', b",", b":", b"-1", b"0", b"1e9", b"\\ud800", b"\\u0000", b"=", b"/", b".."),
)
"""Pieces that mean something in one of the formats."""


def corpus(target: str) -> dict[str, bytes]:
    """By file name."""
    return {path.name: path.read_bytes() for path in sorted((CORPUS / target).iterdir())}


def golden_checkpoints() -> dict[str, bytes]:
    return {path.stem: json.loads(path.read_bytes())["file_text"].encode() for path in sorted(GOLDEN.glob("*.json"))}


@st.composite
def mutated(draw: st.DrawFn, samples: Sequence[bytes]) -> bytes:
    """A sample with some pieces replaced: by nothing, by anything, by telling ones, or by pieces of samples."""
    content = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(0, 4))):
        start, end = piece(draw, content)
        other = draw(st.sampled_from([content, *samples]))
        from_other = slice(*piece(draw, other))
        inserted = draw(st.one_of(st.sampled_from([b"", *TELLING, other[from_other]]), st.binary(max_size=8)))
        content = content[:start] + inserted + content[end:]
    return content


def piece(draw: st.DrawFn, content: bytes) -> tuple[int, int]:
    start = draw(st.integers(0, len(content)))
    return start, draw(st.integers(start, min(len(content), start + draw(st.sampled_from([0, 1, 4, 40, 4000])))))


# --- device lists ---------------------------------------------------------------------------------------------------

DEVICE_LISTS: Final = corpus("device_list")


def check_device_lists(messages: Sequence[bytes]) -> None:
    """A stream read by difference shows after each message what the message says, until one cannot be read."""
    reader, table = DeviceListReader(), DeviceTable.of(())
    for message in messages:
        try:
            said = [listed(device) for device in pb.ListAndWatchResponse.FromString(message).devices]
        except DecodeError:
            with pytest.raises(RpcFailed):
                reader.read(message)
            return
        match reader.read(message):
            case NewList(devices):
                assert list(devices) == said
                table = DeviceTable.of(devices)
            case ChangedDevices(devices):
                table = table.with_changes(devices)
        assert table == DeviceTable.of(said)


def listed(device: pb.Device) -> ListedDevice:
    nodes = tuple(node.ID for node in device.topology.nodes) if device.HasField("topology") else None
    return ListedDevice(device.ID, device.health, nodes)  # type: ignore[arg-type]  # a text is a device ID


@pytest.mark.parametrize("message", DEVICE_LISTS.values(), ids=DEVICE_LISTS.keys())
def test_device_list_of_the_corpus(message: bytes) -> None:
    check_device_lists([message, message])


@given(st.lists(mutated([*DEVICE_LISTS.values()]), min_size=1, max_size=4))
def test_device_lists(messages: list[bytes]) -> None:
    check_device_lists(messages)


@given(st.data())
def test_device_list_that_changes_a_little(data: st.DataObject) -> None:
    messages = [data.draw(st.sampled_from([*DEVICE_LISTS.values()]))]
    for _ in range(3):
        messages.append(data.draw(mutated(messages[-1:])))
    check_device_lists(messages)


# --- checkpoints ----------------------------------------------------------------------------------------------------

CHECKPOINTS: Final = golden_checkpoints() | corpus("checkpoint")


def check_checkpoint(content: bytes) -> None:
    """What can be read can be imported, and written so that it reads the same."""
    try:
        load(content, source="fuzz")
    except CorruptCheckpoint:
        pass
    try:
        data = parse(content, source="fuzz").data
    except CorruptCheckpoint:
        return
    assert load(encode(data), source="rewritten") == data
    imported_state(data)


@pytest.mark.parametrize("content", CHECKPOINTS.values(), ids=CHECKPOINTS.keys())
def test_checkpoint_of_the_corpus(content: bytes) -> None:
    check_checkpoint(content)


@given(mutated([*CHECKPOINTS.values()]))
def test_checkpoints(content: bytes) -> None:
    check_checkpoint(content)


# --- registrations --------------------------------------------------------------------------------------------------

REGISTRATIONS: Final = corpus("registration")
DIRECTORY: Final = Path("/var/lib/kubelet/device-plugins")


def check_registration_message(encoded: bytes) -> None:
    """A message is unreadable, refused as by a kubelet, or names a resource and a path in the directory.

    The path may be the directory itself, which is dialled in vain, as by a kubelet.
    """
    try:
        message = pb.RegisterRequest.FromString(encoded)
        registration = Registration(message.version, message.endpoint, message.resource_name)
        resource, socket = check_registration(registration, DIRECTORY)
    except (DecodeError, RegistrationRefused):
        return
    assert registration.version == API_VERSIONS[0]
    assert is_extended_resource(resource)
    assert DIRECTORY in (socket, *socket.parents)
    assert ".." not in socket.parts


@pytest.mark.parametrize("encoded", REGISTRATIONS.values(), ids=REGISTRATIONS.keys())
def test_registration_of_the_corpus(encoded: bytes) -> None:
    check_registration_message(encoded)


@given(mutated([*REGISTRATIONS.values()]))
def test_registrations(encoded: bytes) -> None:
    check_registration_message(encoded)
