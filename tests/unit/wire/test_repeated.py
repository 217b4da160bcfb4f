from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.repeated import elements


@given(st.lists(st.text(max_size=300), max_size=20))
def test_elements_are_those_that_protobuf_reads(names: list[str]) -> None:
    encoded = pb.ListAndWatchResponse(devices=[pb.Device(ID=name) for name in names]).SerializeToString()
    assert elements(encoded) == [pb.Device(ID=name).SerializeToString() for name in names]


@pytest.mark.parametrize("other", [b"\x10\x01", b"\x12\x00", b"\x0a\x00\x18\x01"])
def test_another_field_is_not_passed_over(other: bytes) -> None:
    assert elements(other) is None


def test_messages_are_found_without_what_finding_files_anywhere_takes() -> None:
    code = "import sys, plugbay.wire.plugin_server; sys.exit('importlib.resources' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
