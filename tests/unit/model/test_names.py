from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay import Device, Replicas
from plugbay.errors import DuplicateDeviceName, InvalidDevice
from plugbay.model.devices import check_names
from plugbay.model.names import derive_name

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@pytest.mark.parametrize(
    ("device_id", "name"),
    [
        ("gpu0", "gpu0"),
        ("0", "0"),
        ("x" * 63, "x" * 63),
        ("A/1", "a-1-a5b3d27a"),
        ("GPU-8c5b", "gpu-8c5b-9455f6f4"),
        ("-a-", "a-a75a468f"),
        ("a.b", "a-b-2e7336dc"),
        ("___", "bda25155"),
        ("Ä", "2fe5ca1c"),
        ("a::0", "a-0-64090a83"),
        ("X" * 63, "x" * 54 + "-f7b6b946"),
        ("a" * 53 + "__b", "a" * 53 + "-6fc2449a"),
    ],
)
def test_name_is_the_id_or_what_is_left_of_it_and_a_digest(device_id: str, name: str) -> None:
    assert derive_name(device_id) == name


@given(st.text(min_size=1, max_size=63))
def test_name_is_always_a_label_and_always_the_same(device_id: str) -> None:
    device_id = device_id.encode(errors="replace").decode()
    name = derive_name(device_id)
    assert len(name) <= 63
    assert LABEL.fullmatch(name)
    assert derive_name(device_id) == name


@given(st.lists(st.text(alphabet="aA0-_/.", min_size=1, max_size=5), unique=True))
def test_different_ids_have_different_names(ids: list[str]) -> None:
    assert len({derive_name(each) for each in ids}) == len(ids)


def test_author_may_name_the_slot() -> None:
    device = Device("GPU-8c5b", name="slot-0", sharing=Replicas(2))
    assert device.name == "slot-0"
    assert Device("GPU-8c5b").name.startswith("gpu-8c5b-")
    assert Device("gpu0").name == "gpu0"


@pytest.mark.parametrize("name", ["", "Slot", "-a", "a-", "a_b", "x" * 64, "a.b"])
def test_name_that_is_no_label_is_refused(name: str) -> None:
    with pytest.raises(InvalidDevice, match="is not a DNS label"):
        Device("gpu0", name=name)


def test_two_devices_have_two_names() -> None:
    check_names([Device("a", name="x"), Device("b", name="y"), Device("c")])
    check_names([Device("a"), Device("b")])
    with pytest.raises(DuplicateDeviceName, match="the devices 'a' and 'b' have the same name 'b'"):
        check_names([Device("a", name="b"), Device("b")])
