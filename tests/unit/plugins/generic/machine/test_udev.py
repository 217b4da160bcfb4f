"""What udev found out counts as properties, and is read again when udev writes it later than the kernel tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.kernel.uevent import Uevent
from plugbay.plugins.generic.machine.machine import SysMachine
from plugbay.plugins.generic.machine.udev import file_name
from plugbay.plugins.generic.machine.values import SysDevice, SysPath
from tests.sysfs_trees import lay_out

TTY = "c188:4"


@pytest.fixture
def machine(tmp_path: Path) -> SysMachine:
    lay_out("usb-sticks", tmp_path)
    (tmp_path / "udev/data").mkdir(parents=True)
    return SysMachine(tmp_path / "sys", tmp_path / "dev", tmp_path / "udev")


def tty_of(machine: SysMachine) -> SysDevice:
    device = machine.by_node("/dev/ttyUSB4")
    assert device is not None
    return device


def write(root: Path, name: str, text: str) -> None:
    later = root / "udev/data/.new"
    later.write_text(text)
    later.rename(root / "udev/data" / name)


@pytest.mark.parametrize(
    ("device", "name"),
    [
        (SysDevice(SysPath("/devices/x/ttyUSB0"), "tty", node="/dev/ttyUSB0", number=(188, 0)), "c188:0"),
        (SysDevice(SysPath("/devices/x/sda"), "block", node="/dev/sda", number=(8, 0), is_block=True), "b8:0"),
        (SysDevice(SysPath("/devices/x/eth0"), "net", properties={"IFINDEX": "2"}), "n2"),
        (SysDevice(SysPath("/devices/x/1-1:1.0"), "usb"), "+usb:1-1:1.0"),
    ],
    ids=["number", "block", "interface", "name"],
)
def test_a_device_has_a_file_of_udev(device: SysDevice, name: str) -> None:
    assert file_name(device) == name


def test_properties_of_udev_are_those_of_the_device_or_of_one_above(machine: SysMachine, tmp_path: Path) -> None:
    write(tmp_path, TTY, "S:serial/by-id/x\nE:ID_MODEL=FT232R\nE:DEVNAME=/dev/other\nG:systemd\nE:broken\n")
    write(tmp_path, "c189:6", "E:ID_MODEL=above\nE:ID_VENDOR_FROM_DATABASE=FTDI\x1b[1m\n")
    tty = tty_of(machine)
    assert machine.property_of(tty, "property:ID_MODEL") == "FT232R"
    assert machine.property_of(tty, "property:ID_VENDOR_FROM_DATABASE") == "FTDI [1m"
    assert machine.property_of(tty, "property:DEVNAME") == "ttyUSB4"  # the kernel's counts
    assert machine.property_of(tty, "property:broken") is None


def test_what_udev_writes_later_is_found(machine: SysMachine, tmp_path: Path) -> None:
    tty = tty_of(machine)
    assert machine.udev is not None
    assert not machine.udev.is_asked
    assert machine.property_of(tty, "property:ID_MODEL") is None
    assert machine.udev.is_asked
    assert machine.refresh_udev() == frozenset()
    write(tmp_path, TTY, "E:ID_MODEL=FT232R\n")
    assert machine.property_of(tty, "property:ID_MODEL") is None
    assert machine.refresh_udev() == {tty.path}
    assert machine.property_of(tty, "property:ID_MODEL") == "FT232R"
    write(tmp_path, TTY, "E:ID_MODEL=other\n")
    assert tty.path in machine.refresh()
    write(tmp_path, TTY, "E:ID_MODEL=changed\n")
    assert machine.refresh_udev() == {tty.path}  # without being asked for it since
    write(tmp_path, TTY, "E:ID_MODEL=third\n")
    assert machine.apply(Uevent("change", tty.path, {})) == {tty.path}
    assert machine.property_of(tty, "property:ID_MODEL") == "third"
    assert machine.refresh_udev() == frozenset()


def test_a_machine_without_udev_has_the_kernels_properties(tmp_path: Path) -> None:
    machine = lay_out("usb-sticks", tmp_path)
    assert machine.property_of(tty_of(machine), "property:BUSNUM") == "001"
    assert machine.property_of(tty_of(machine), "property:ID_MODEL") is None
    assert machine.refresh_udev() == frozenset()


def test_a_group_of_vfio_changes_with_its_functions(tmp_path: Path) -> None:
    machine = lay_out("vfio", tmp_path)
    group = machine.by_node("/dev/vfio/12")
    assert group is not None
    assert machine.property_of(group, "driver") == "vfio-pci"
    assert group in machine.devices_of("vfio")
    function = machine.behind(group)[0]
    assert machine.apply(Uevent("unbind", function.path, {})) == {function.path, group.path}


def test_a_disk_on_scsi_tells_its_serial_number_in_a_page(tmp_path: Path) -> None:
    machine = lay_out("dual-socket", tmp_path)
    disk = machine.by_node("/dev/sda")
    assert disk is not None
    page = tmp_path / f"sys{machine.physical(disk).path}/vpd_pg80"
    page.write_bytes(b"\x00\x80\x00\x14  PHYF1234567890ABCDEF")
    assert machine.property_of(disk, "serial") == "PHYF1234567890ABCDEF"
