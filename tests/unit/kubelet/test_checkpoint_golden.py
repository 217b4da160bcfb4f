"""Golden files: accepted and rejected as by a kubelet 1.36, with its hashed text and sum (scenario 118)."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from plugbay.errors import CorruptCheckpoint
from plugbay.kubelet.checkpoint import encode, load, parse
from plugbay.kubelet.checkpoint_data import checksum, dump
from plugbay.kubelet.old_checkpoint import old_checksum, parse_old

DIRECTORY: Final = Path(__file__).parents[2] / "golden" / "checkpoints"


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    is_old: bool
    content: bytes
    hashed: bytes | None
    checksum: int | None
    load_error: str | None

    def __str__(self) -> str:
        return self.name


def read_samples() -> list[Sample]:
    return [_read(path) for path in sorted(DIRECTORY.glob("*.json"))]


def sample(name: str) -> Sample:
    return _read(DIRECTORY / f"{name}.json")


def _read(path: Path) -> Sample:
    recorded = json.loads(path.read_text())
    hashed = recorded["hashed_string_base64"]
    return Sample(
        recorded["name"],
        recorded["format"] == "old",
        recorded["file_text"].encode(),
        None if hashed is None else base64.b64decode(hashed),
        recorded["checksum"],
        recorded["load_error"],
    )


SAMPLES = read_samples()
DECODABLE = [each for each in SAMPLES if each.hashed is not None and not each.is_old]
VALID = [each for each in SAMPLES if each.load_error is None]


def test_the_samples_are_there() -> None:
    assert (len(SAMPLES), len(DECODABLE), len(VALID)) == (30, 22, 17)


@pytest.mark.parametrize("each", SAMPLES, ids=str)
def test_s118_file_is_accepted_or_rejected_as_recorded(each: Sample) -> None:
    if each.load_error is None:
        load(each.content, source="sample")
        return
    with pytest.raises(CorruptCheckpoint, match=r"^checkpoint sample is corrupted: \S"):
        load(each.content, source="sample")


@pytest.mark.parametrize("each", SAMPLES, ids=str)
def test_only_decodable_files_are_parsed(each: Sample) -> None:
    if each in DECODABLE:
        parse(each.content, source="sample")
    else:
        with pytest.raises(CorruptCheckpoint):
            parse(each.content, source="sample")


@pytest.mark.parametrize("each", DECODABLE, ids=str)
def test_hashed_text_and_sum_are_reproduced(each: Sample) -> None:
    data = parse(each.content, source="sample").data
    assert dump(data) == each.hashed
    assert checksum(data) == each.checksum


@pytest.mark.parametrize("each", DECODABLE, ids=str)
def test_written_again_in_its_own_order_it_keeps_hashed_text_and_sum(each: Sample) -> None:
    written = encode(parse(each.content, source="sample").data)
    again = load(written, source="written")
    assert dump(again) == each.hashed
    assert json.loads(written)["Checksum"] == each.checksum


GO_WRITTEN = [each for each in VALID if each.name < "13"]


@pytest.mark.parametrize("each", GO_WRITTEN, ids=str)
def test_what_go_wrote_is_written_again_byte_for_byte(each: Sample) -> None:
    assert encode(load(each.content, source="sample")) == each.content


def test_seed_004_is_corrupt_and_says_both_sums() -> None:
    with pytest.raises(CorruptCheckpoint) as caught:
        load(sample("80-seed-004").content, source="seed")
    assert str(caught.value) == ("checkpoint seed is corrupted: checksum is 216033768, the content's is 2703430300")


def test_old_file_is_read_as_such_only() -> None:
    old = sample("90-old-format")
    checkpoint = parse_old(old.content, source="old")
    assert checkpoint.checksum == old_checksum(checkpoint.data) == old.checksum
    assert [entry.device_ids for entry in checkpoint.data.pod_device_entries or ()] == [{0: ("dev1", "dev2")}, {0: ()}]
    with pytest.raises(CorruptCheckpoint, match="DeviceIDs is an object, not a list"):
        parse_old(sample("03-one-allocation-no-topology").content, source="new")


def test_old_file_converted_is_accepted() -> None:
    converted = encode(parse_old(sample("90-old-format").content, source="old").data)
    assert len(load(converted, source="converted").pod_device_entries or ()) == 2
