"""Whether nodes open: on this kernel's real devices, and on files that stand for some."""

from __future__ import annotations

import os
import pty
import stat
import termios
from pathlib import Path

import pytest

from plugbay.model.edits import DeviceNode, Mount
from plugbay.model.health import HEALTHY
from plugbay.plugins.generic.serving.opening import opening, reading

ROOT = Path("/")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes device nodes")


@pytest.mark.parametrize("permissions", ["r", "w", "rw", "mrw"])
def test_a_device_that_opens_is_healthy(permissions: str) -> None:
    assert opening(DeviceNode("/dev/null", permissions=permissions), root=ROOT) == HEALTHY


def test_a_missing_node_has_vanished() -> None:
    health = opening(DeviceNode("/dev/no-such-node"), root=ROOT)
    assert health.reason == "Vanished"
    assert health.message == "/dev/no-such-node does not exist"


def node(root: Path, name: str, *, number: tuple[int, int], kind: int = stat.S_IFCHR) -> DeviceNode:
    (root / "dev").mkdir(exist_ok=True)
    os.mknod(root / "dev" / name, kind | 0o600, os.makedev(*number))
    return DeviceNode(f"/dev/{name}")


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK])
def test_a_node_without_a_driver_does_not_open(tmp_path: Path, kind: int) -> None:
    (tmp_path / "sys/dev/char").mkdir(parents=True)
    health = opening(node(tmp_path, "thing0", number=(239, 77), kind=kind), root=tmp_path)
    assert (health.state.value, health.reason) == ("Unhealthy", "OpenFails")
    assert health.message == "/dev/thing0 does not open: No such device or address"


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("subsystem", ["tty", "watchdog", "scsi_tape"])
def test_a_device_that_takes_an_open_for_an_order_is_not_opened(tmp_path: Path, subsystem: str) -> None:
    thing = node(tmp_path, "thing0", number=(239, 77))  # which does not open, see above
    numbers = tmp_path / "sys/dev/char/239:77"
    numbers.mkdir(parents=True)
    (tmp_path / f"sys/class/{subsystem}").mkdir(parents=True)
    (numbers / "subsystem").symlink_to(f"../../../class/{subsystem}")
    assert opening(thing, root=tmp_path) == HEALTHY


@pytest.mark.root
@needs_root
def test_without_sysfs_a_character_device_is_not_opened(tmp_path: Path) -> None:
    assert opening(node(tmp_path, "thing0", number=(239, 77)), root=tmp_path) == HEALTHY


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("number", [(9, 0), (10, 130)])
def test_tapes_and_watchdogs_are_known_by_their_numbers(tmp_path: Path, number: tuple[int, int]) -> None:
    (tmp_path / "sys/dev/char").mkdir(parents=True)
    assert opening(node(tmp_path, "thing0", number=number), root=tmp_path) == HEALTHY


def test_opening_neither_waits_nor_takes_a_terminal() -> None:
    main, other = pty.openpty()
    try:
        settings = termios.tcgetattr(other)
        assert opening(DeviceNode(os.ttyname(other)), root=ROOT) == HEALTHY
        assert termios.tcgetattr(other) == settings
    finally:
        os.close(main)
        os.close(other)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read all files")
def test_a_file_that_is_closed_to_this_process_is_unreadable(tmp_path: Path) -> None:
    file = tmp_path / "thing"
    file.touch(mode=0)
    assert reading(Mount(file), root=ROOT).reason == "Unreadable"


def test_what_is_mounted_has_to_be_there(tmp_path: Path) -> None:
    assert reading(Mount("/thing"), root=tmp_path).reason == "Vanished"
    (tmp_path / "thing").mkdir()
    assert reading(Mount("/thing"), root=tmp_path) == HEALTHY
