"""Loop devices, of this machine's kernel."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plugbay.kernel import loop as loop_module
from plugbay.kernel.loop import FileSlice, LoopDevice, LoopDevices

LOOPS = LoopDevices(Path("/dev"), Path("/sys"))
SIZE = 1 << 20
HALF = SIZE // 2


def can_make_loop_devices() -> bool:
    try:
        LOOPS.check()
    except OSError:
        return False
    return os.geteuid() == 0


needs_loop = pytest.mark.skipif(not can_make_loop_devices(), reason="needs root and /dev/loop-control")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "disk"
    file.write_bytes(bytes(SIZE))
    yield file
    for device in LOOPS.of(file):
        LOOPS.detach(device)


@pytest.mark.root
@needs_loop
def test_what_is_written_is_in_that_part_of_the_file(file: Path) -> None:
    device = LOOPS.attach(FileSlice(file, HALF, HALF), name="half")
    with open(device.node, "rb+", buffering=0) as node:
        assert node.seek(0, os.SEEK_END) == HALF
        node.seek(0)
        node.write(b"x" * 512)
    LOOPS.detach(device)
    assert file.read_bytes() == bytes(HALF) + b"x" * 512 + bytes(HALF - 512)


@pytest.mark.root
@needs_loop
def test_devices_are_found_by_their_file(file: Path, tmp_path: Path) -> None:
    one = LOOPS.attach(FileSlice(file, 0, HALF), name="one")
    two = LOOPS.attach(FileSlice(file, HALF, HALF), name="two")
    assert {device.name: device for device in LOOPS.of(file)} == {"one": one, "two": two}
    other_name = tmp_path / "other"
    os.link(file, other_name)
    assert [(device.name, device.numbers) for device in LOOPS.of(other_name)] == [
        (device.name, device.numbers) for device in LOOPS.of(file)
    ]
    assert LOOPS.of(tmp_path / "none") == []


@pytest.mark.root
@needs_loop
def test_devices_of_a_removed_file_are_found_and_a_new_file_has_none(file: Path) -> None:
    LOOPS.attach(FileSlice(file, 0, SIZE), name="old")
    file.unlink()
    [old] = LOOPS.of(file)
    file.write_bytes(bytes(SIZE))
    assert LOOPS.of(file) == [old]
    LOOPS.detach(old)
    assert LOOPS.of(file) == []


@pytest.mark.root
@needs_loop
def test_device_stays_when_its_last_user_closes_it(file: Path) -> None:
    device = LOOPS.attach(FileSlice(file, 0, SIZE), name="d")
    for _ in range(2):
        device.node.read_bytes()
    assert LOOPS.of(file) == [device]


@pytest.mark.root
@needs_loop
def test_device_in_use_is_not_detached_under_its_user(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "CLEAR_S", 0.05)
    device = LOOPS.attach(FileSlice(file, 0, SIZE), name="d")
    with open(device.node, "rb"), pytest.raises(OSError, match="a process has it open") as caught:
        LOOPS.detach(device)
    assert caught.value.errno == errno.EBUSY
    LOOPS.detach(device)
    LOOPS.detach(device)
    assert LOOPS.of(file) == []


@pytest.mark.root
@needs_loop
def test_number_that_has_gone_to_another_file_is_left_alone(file: Path, tmp_path: Path) -> None:
    """As between the end of one device and our next look at its number."""
    ours = LOOPS.attach(FileSlice(file, 0, SIZE), name="d")
    LOOPS.detach(ours)
    other = tmp_path / "other"
    other.write_bytes(bytes(SIZE))
    theirs = LOOPS.attach(FileSlice(other, 0, SIZE), name="d")
    try:
        LOOPS.detach(dataclasses.replace(ours, node=theirs.node, numbers=theirs.numbers))
        assert LOOPS.of(other) == [theirs]
    finally:
        LOOPS.detach(theirs)


@pytest.mark.root
@needs_loop
def test_device_that_goes_and_comes_while_it_is_looked_at_is_looked_at_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As others do with theirs: what was attached when its number was read holds nothing a moment later."""
    device = LOOPS.attach(FileSlice(file, 0, SIZE), name="d")
    look_at, looks = loop_module._look_at, []

    def vanished_once(*place: Any) -> LoopDevice:
        looks.append(place)
        if len(looks) == 1:
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
        return look_at(*place)

    monkeypatch.setattr(loop_module, "_look_at", vanished_once)
    assert LOOPS.of(file) == [device]


@pytest.mark.root
@needs_loop
def test_device_that_cannot_be_looked_at_is_not_taken_for_none(file: Path, tmp_path: Path) -> None:
    """As in a container that has the host's /sys, and a /dev of its own."""
    LOOPS.attach(FileSlice(file, 0, SIZE), name="d")
    with pytest.raises(FileNotFoundError):
        LoopDevices(tmp_path, Path("/sys")).of(file)


def test_machine_without_loop_devices(tmp_path: Path) -> None:
    loops = LoopDevices(tmp_path / "dev", tmp_path / "sys")
    with pytest.raises(FileNotFoundError):
        loops.check()
    assert loops.of(tmp_path) == []
