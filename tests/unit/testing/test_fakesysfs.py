"""The files of a fake machine are where a kernel has them, and go as they came."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.kernel.numa import read_numa_nodes
from plugbay.model.topology import pretended_nodes
from plugbay.testing.fakesysfs import FakePciDevice, FakeSysfs

CARD: Final[dict[str, Any]] = {"vendor": 0x10DE, "device": 0x20B0, "pci_class": 0x030200}
CONTROLLER: Final[dict[str, Any]] = {"vendor": 0x8086, "device": 0xA36D, "pci_class": 0x0C0330}
STICK: Final[dict[str, Any]] = {"vendor": 0x10C4, "product": 0xEA60}


def everything(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def text(path: Path) -> str:
    return path.read_text().rstrip("\n")


@pytest.fixture
def sysfs(tmp_path: Path) -> FakeSysfs:
    return FakeSysfs(tmp_path)


@pytest.fixture
def controller(sysfs: FakeSysfs) -> FakePciDevice:
    return sysfs.pci("0000:00:14.0", **CONTROLLER)


@pytest.mark.parametrize("nodes", [1, 2, 8])
def test_numa_nodes_are_read_back(sysfs: FakeSysfs, nodes: int) -> None:
    sysfs.numa(nodes)
    assert read_numa_nodes(sysfs.sys) == pretended_nodes(nodes)
    assert text(sysfs.sys / "devices/system/node/node0/cpulist") == "0-3"


def test_pci_function_is_found_from_its_bus(sysfs: FakeSysfs) -> None:
    card = sysfs.pci("0000:3b:00.0", **CARD, driver="nvidia", numa_node=1, iommu_group=7)
    place = sysfs.sys / "bus/pci/devices/0000:3b:00.0"
    assert place.resolve() == card.place == sysfs.sys / "devices/pci0000:3b/0000:3b:00.0"
    names = ("vendor", "device", "class", "numa_node")
    assert [text(place / name) for name in names] == ["0x10de", "0x20b0", "0x030200", "1"]
    assert (place / "driver").resolve().name == card.driver == "nvidia"
    assert (place / "subsystem").resolve() == sysfs.sys / "bus/pci"
    assert (sysfs.sys / "kernel/iommu_groups/7/devices/0000:3b:00.0").resolve() == card.place
    assert (sysfs.sys / "bus/pci/drivers/nvidia/0000:3b:00.0").resolve() == card.place
    uevent = dict(line.split("=", 1) for line in text(place / "uevent").splitlines())
    assert uevent["DRIVER"] == "nvidia"
    assert uevent["PCI_ID"] == "10DE:20B0"
    assert uevent["MODALIAS"] == "pci:v000010DEd000020B0sv000010DEsd00000000bc03sc02i00"


def test_functions_lie_behind_bridges(sysfs: FakeSysfs) -> None:
    bridge = sysfs.pci("0000:3a:00.0", vendor=0x8086, device=0x2030, pci_class=0x060400)
    card = bridge.pci("0000:3b:00.0", **CARD)
    other = sysfs.pci("0000:3a:01.0", **CARD)
    assert card.place.parent == bridge.place
    assert other.place.parent == bridge.place.parent
    assert text(card.place / "numa_node") == "-1"


def test_driver_lets_go_of_a_device_and_another_takes_it(sysfs: FakeSysfs) -> None:
    card = sysfs.pci("0000:3b:00.0", **CARD, driver="nvidia")
    card.bind("vfio-pci")
    assert card.driver == "vfio-pci"
    assert list((sysfs.sys / "bus/pci/drivers/nvidia").iterdir()) == []
    card.bind("")
    assert card.driver == ""
    assert "DRIVER" not in text(card.place / "uevent")


def test_usb_paths_are_made_of_ports(controller: FakePciDevice) -> None:
    root = controller.usb_bus(1)
    hub = root.plug(2, vendor=0x05E3, product=0x0608, device_class=9)
    first = hub.plug(1, **STICK, serial="0001", manufacturer="Silicon Labs", product_name="CP2102")
    second = hub.plug(4, **STICK)
    assert [device.name for device in (root, hub, first, second)] == ["usb1", "1-2", "1-2.1", "1-2.4"]
    assert first.place.parent == hub.place
    names = ("idVendor", "idProduct", "serial", "busnum", "devnum", "devpath")
    assert [text(first.place / name) for name in names] == ["10c4", "ea60", "0001", "1", "3", "2.1"]
    assert not (second.place / "serial").exists()
    assert first.node == controller.trees.root / "dev/bus/usb/001/003"
    assert text(first.place / "dev") == "189:2"
    assert (controller.trees.root / "sys/bus/usb/devices/1-2.1").resolve() == first.place


def test_a_serial_stick_leads_from_its_node_to_its_port(sysfs: FakeSysfs, controller: FakePciDevice) -> None:
    stick = controller.usb_bus(1).plug(3, **STICK)
    port = stick.interface(0, driver="cp210x").bus_device("usb-serial", "ttyUSB0", driver="cp210x")
    tty = port.class_device("tty", "ttyUSB0", number=(188, 0))
    assert tty.node == sysfs.dev / "ttyUSB0"
    for link in ("class/tty/ttyUSB0", "dev/char/188:0"):
        assert (sysfs.sys / link).resolve() == tty.place
    assert tty.place.is_relative_to(stick.place)
    assert (tty.place / "device").resolve() == port.place
    assert text(tty.place / "uevent") == "MAJOR=188\nMINOR=0\nDEVNAME=ttyUSB0"
    assert text(stick.place / "1-3:1.0/bInterfaceNumber") == "00"


def test_what_is_unplugged_leaves_nothing(sysfs: FakeSysfs, controller: FakePciDevice) -> None:
    root = controller.usb_bus(1)
    hub = root.plug(1, vendor=0x05E3, product=0x0608, device_class=9)
    before = everything(sysfs.root)
    stick = hub.plug(1, **STICK)
    stick.interface(0).class_device("hidraw", "hidraw0", number=(240, 0))
    assert [device.name for device in stick.walk()] == ["1-1.1", "1-1.1:1.0", "hidraw0"]
    stick.remove()
    added = everything(sysfs.root) - before
    assert added == {"sys/class/hidraw"}  # a class stays, as in a kernel
    assert hub.children == []


def test_a_stick_that_is_plugged_in_again_has_the_same_path_and_a_new_address(controller: FakePciDevice) -> None:
    root = controller.usb_bus(1)
    first = root.plug(1, **STICK)
    first.remove()
    second = root.plug(1, **STICK)
    assert second.name == first.name
    assert (first.address, second.address) == (2, 3)


def test_a_bus_that_is_taken_away_takes_its_devices_along(sysfs: FakeSysfs, controller: FakePciDevice) -> None:
    hub = controller.usb_bus(1)
    hub.plug(1, **STICK).interface(0).class_device("tty", "ttyACM0", number=(166, 0))
    controller.remove()
    assert [path.name for path in sysfs.dev.rglob("*") if path.is_file()] == []
    assert not controller.place.exists()


def test_devices_without_hardware(sysfs: FakeSysfs) -> None:
    kvm = sysfs.virtual("misc", "kvm", number=(10, 232))
    loopback = sysfs.virtual("net", "lo")
    assert kvm.node == sysfs.dev / "kvm"
    assert loopback.node is None
    assert (sysfs.sys / "class/net/lo").resolve() == sysfs.sys / "devices/virtual/net/lo"


def test_several_functions_have_nodes_in_a_directory(sysfs: FakeSysfs) -> None:
    card = sysfs.pci("0000:3b:00.0", **CARD)
    render = card.class_device("drm", "renderD128", number=(226, 128), devname="dri/renderD128")
    assert render.node == sysfs.dev / "dri/renderD128"
    assert render.node is not None
    assert render.node.is_file()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="device nodes take root")
def test_nodes_can_be_real(tmp_path: Path) -> None:
    sysfs = FakeSysfs(tmp_path, real_nodes=True)
    null = sysfs.virtual("mem", "null", number=(1, 3))
    disk = sysfs.virtual("block", "loop0", number=(7, 0))
    assert null.node is not None
    assert disk.node is not None
    status = null.node.stat()
    assert stat.S_ISCHR(status.st_mode)
    assert status.st_rdev == os.makedev(1, 3)
    assert stat.S_ISBLK(disk.node.stat().st_mode)
    assert (sysfs.sys / "dev/block/7:0").is_symlink()
