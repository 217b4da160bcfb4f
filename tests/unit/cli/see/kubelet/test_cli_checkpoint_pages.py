"""What `plugbay checkpoint` shows of identifiers that are not words."""

from __future__ import annotations

import pytest

from plugbay.cli.see.kubelet.checkpoint_pages import checkpoint_page, difference, shown
from plugbay.kubelet.checkpoint_data import Checkpoint, CheckpointData, PodDevicesEntry
from plugbay.model.edits import ContainerEdits
from plugbay.wire.convert import edits_to_pb

ENTRY = PodDevicesEntry(
    pod_uid="u",
    container_name="c",
    resource_name="a/b",
    device_ids={-1: ["x\ny", ""]},
    alloc_resp=edits_to_pb(ContainerEdits(env={"A": "one\ntwo"})).SerializeToString(),
)
ODD = CheckpointData((ENTRY,), {"a/b": ["x\ny", "", "z"]})


@pytest.mark.parametrize(
    ("text", "word"),
    [("g0", "g0"), ("gpu::1", "gpu::1"), ("", '""'), ("a b", '"a b"'), ("a,b", '"a,b"'), ("a\x1b[1m", r'"a\x1b[1m"')],
)
def test_what_is_no_word_stands_in_quotes(text: str, word: str) -> None:
    assert shown(text) == word


def test_a_device_list_is_shown_whole() -> None:
    lines = checkpoint_page(Checkpoint(ODD, 0)).splitlines()
    assert lines[3].split(None, 3) == ["u", "c", "a/b", r'"x\ny",""']
    assert lines[6].split(None, 2) == ["a/b", "3", r'"x\ny","",z']
    assert lines[9] == r'  env A="one\ntwo"'


def test_a_difference_is_a_line() -> None:
    assert list(difference(CheckpointData(), ODD)) == [
        r'+ pod u c a/b: devices "","x\ny"; env A="one\ntwo"',
        r'+ registered a/b: "","x\ny",z',
    ]
