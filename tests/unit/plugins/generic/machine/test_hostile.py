"""Devices that vanish while they are read, drivers that refuse, and texts that would do harm: nothing raises."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.kernel.uevent import Uevent
from plugbay.plugins.generic.machine.machine import SysMachine
from plugbay.plugins.generic.machine.properties import PROPERTY_NAMES, cleaned
from plugbay.plugins.generic.machine.values import SysDevice, SysPath
from plugbay.testing.fakesysfs import FakeSysfs, FakeUsbDevice

CONTROLLER: Final[dict[str, Any]] = {"vendor": 0x8086, "device": 0xA36D, "pci_class": 0x0C0330}


@pytest.fixture
def stick(tmp_path: Path) -> FakeUsbDevice:
    hub = FakeSysfs(tmp_path).pci("0000:00:14.0", **CONTROLLER).usb_bus(1)
    return hub.plug(1, vendor=0x10C4, product=0xEA60, serial="A1")


def machine_with(stick: FakeUsbDevice) -> tuple[SysMachine, SysDevice]:
    machine = SysMachine(stick.trees.root / "sys", stick.trees.root / "dev")
    device = machine.by_node("/dev/bus/usb/001/002")
    assert device is not None
    return machine, device


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"\x1b[2Jowned\x07\n", "[2Jowned"),
        (b"two\nlines\n", "two lines"),
        (b"  spaces  about \n", "spaces about"),
        (b"\xff\xfe\x00\x01", "\N{REPLACEMENT CHARACTER}" * 2),
        ("right\N{RIGHT-TO-LEFT OVERRIDE}left".encode(), "right left"),
        (b"x" * 10_000, "x" * 256),
        (b"\n", None),
        (b"", None),
    ],
    ids=["escapes", "lines", "spaces", "binary", "direction", "long", "blank", "empty"],
)
def test_a_text_of_a_device_is_one_short_line(stick: FakeUsbDevice, content: bytes, shown: str | None) -> None:
    (stick.place / "serial").write_bytes(content)
    machine, device = machine_with(stick)
    assert machine.property_of(device, "serial") == machine.property_of(device, "attr:serial") == shown
    assert machine.facts(device).get("serial") == shown
    assert machine.identity(device).isprintable()


def test_an_attribute_itself_is_as_the_kernel_shows_it(stick: FakeUsbDevice) -> None:
    (stick.place / "serial").write_bytes(b" two  blanks \n\n")
    machine, device = machine_with(stick)
    assert machine.attribute(device, "serial") == " two  blanks \n"
    assert machine.attribute(device, "subsystem") == "usb"


@pytest.mark.parametrize("name", ["../1-1/serial", "/etc/passwd", "..", "a\0b", "power", "", "missing", "x" * 5000])
def test_only_attributes_of_the_device_are_read(stick: FakeUsbDevice, name: str) -> None:
    (stick.place / "power").mkdir()
    machine, device = machine_with(stick)
    assert machine.attribute(device, name) is None
    assert machine.property_of(device, f"attr:{name}") is None
    assert machine.property_of(device, name) is None


def test_a_pipe_among_attributes_does_not_block(stick: FakeUsbDevice) -> None:
    os.mkfifo(stick.place / "pipe")
    machine, device = machine_with(stick)
    assert machine.attribute(device, "pipe") == ""


def test_a_driver_that_refuses_to_tell_its_uevent_leaves_a_device_without_properties(stick: FakeUsbDevice) -> None:
    (stick.place / "uevent").unlink()
    (stick.place / "uevent").mkdir()  # what reading it gives is an error
    machine = SysMachine(stick.trees.root / "sys", stick.trees.root / "dev")
    device = next(each for each in machine.devices_of("usb") if each.name == "1-1")
    assert (device.node, device.number, dict(device.properties)) == ("", None, {})
    assert machine.property_of(device, "vendor") == "10c4"


def test_a_device_that_vanished_has_what_was_read_and_nothing_else(stick: FakeUsbDevice) -> None:
    machine, device = machine_with(stick)
    assert machine.attribute(device, "serial") == "A1"
    stick.remove()
    assert machine.attribute(device, "serial") == "A1"
    assert machine.attribute(device, "speed") is None
    assert {name: machine.property_of(device, name) for name in PROPERTY_NAMES}["name"] == "1-1"
    assert machine.identity(device)
    assert [each.name for each in machine.ancestors(device)] == ["usb1", "0000:00:14.0"]
    assert machine.apply(Uevent("remove", device.path, {})) == {device.path}
    assert machine.device(device.path) is None
    assert machine.apply(Uevent("remove", device.path, {})) == frozenset()


def test_a_link_without_its_device_is_not_a_device(stick: FakeUsbDevice, tmp_path: Path) -> None:
    for link in (tmp_path / "sys/bus/usb/devices", tmp_path / "sys/class/tty"):
        link.mkdir(exist_ok=True)
        (link / "gone").symlink_to("../../../devices/gone")
        (link / "away").symlink_to("../../../../../etc")
        (link / "out").symlink_to("../../../devices/../../../etc")
        (link / "absolute").symlink_to("/devices/x")
        (link / "file").write_text("")
    machine, _ = machine_with(stick)
    assert [each.name for each in machine.devices_of("usb")] == ["usb1", "1-1"]
    assert machine.devices_of("tty") == machine.devices_of("nothing") == machine.devices_of("..") == ()


def test_a_machine_without_sysfs_has_no_devices(tmp_path: Path) -> None:
    machine = SysMachine(tmp_path / "sys", tmp_path / "dev")
    assert machine.all() == machine.devices_of("usb") == ()
    assert machine.by_node("/dev/null") is None
    assert machine.device(SysPath("/devices/x")) is None
    assert machine.refresh() == machine.apply(Uevent("add", "/devices/x", {})) == frozenset()
    assert machine.node_links("/dev/null") == ()


def test_a_node_lies_below_dev(stick: FakeUsbDevice) -> None:
    stick.add_to_uevent({"DEVNAME": "../etc/shadow"})
    machine = SysMachine(stick.trees.root / "sys", stick.trees.root / "dev")
    assert {each.node for each in machine.devices_of("usb")} == {"", "/dev/bus/usb/001/001"}


@given(st.text(max_size=600))
def test_cleaned_texts_are_one_short_printable_line(text: str) -> None:
    once = cleaned(text)
    assert once.isprintable()
    assert len(once) <= 256
    assert once == once.strip() == cleaned(once)
