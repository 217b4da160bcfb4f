from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.repeated import element_ends, elements


@given(st.lists(st.text(max_size=300), max_size=20))
def test_elements_are_those_that_protobuf_reads(names: list[str]) -> None:
    encoded = pb.ListAndWatchResponse(devices=[pb.Device(ID=name) for name in names]).SerializeToString()
    assert elements(encoded) == [pb.Device(ID=name).SerializeToString() for name in names]


@given(st.lists(st.text(max_size=300), max_size=20), st.binary(max_size=3))
def test_elements_end_where_the_next_ones_begin(names: list[str], before: bytes) -> None:
    encoded = pb.ListAndWatchResponse(devices=[pb.Device(ID=name) for name in names]).SerializeToString()
    ends = element_ends(before + encoded, len(before), len(before) + len(encoded))
    assert ends is not None
    starts = [len(before), *ends]
    read = [pb.ListAndWatchResponse.FromString((before + encoded)[a:b]) for a, b in pairwise(starts)]
    assert [[device.ID for device in each.devices] for each in read] == [[name] for name in names]


@given(st.binary(max_size=20), st.integers(0, 20), st.integers(0, 20))
def test_what_ends_elsewhere_has_no_ends(message: bytes, start: int, stop: int) -> None:
    ends = element_ends(message, start, min(stop, len(message)))
    if ends:
        assert ends[-1] == min(stop, len(message))


@pytest.mark.parametrize("cut", [b"\x0a", b"\x0a\x80", b"\x0a\x02a", b"\x0a\x01ab"])
def test_cut_elements_have_no_ends(cut: bytes) -> None:
    assert element_ends(cut, 0, len(cut)) is None


@pytest.mark.parametrize("other", [b"\x10\x01", b"\x12\x00", b"\x0a\x00\x18\x01"])
def test_another_field_is_not_passed_over(other: bytes) -> None:
    assert elements(other) is None


def test_messages_are_found_without_what_finding_files_anywhere_takes() -> None:
    code = "import sys, plugbay.wire.plugin_server; sys.exit('importlib.resources' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
