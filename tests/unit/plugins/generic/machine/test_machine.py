"""Devices are found, belong together, have properties, and keep their identities over a replug."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.kernel.uevent import Uevent
from plugbay.plugins.generic.machine.machine import SysMachine
from plugbay.plugins.generic.machine.values import SysDevice, SysPath
from plugbay.testing.fakesysfs import FakeSysfs, FakeSysfsDevice, FakeUsbDevice

CONTROLLER: Final[dict[str, Any]] = {"vendor": 0x8086, "device": 0xA36D, "pci_class": 0x0C0330}


@pytest.fixture
def sysfs(tmp_path: Path) -> FakeSysfs:
    return FakeSysfs(tmp_path)


@pytest.fixture
def hub(sysfs: FakeSysfs) -> FakeUsbDevice:
    return sysfs.pci("0000:00:14.0", **CONTROLLER, driver="xhci_hcd", numa_node=1).usb_bus(1)


def machine_of(sysfs: FakeSysfs) -> SysMachine:
    return SysMachine(sysfs.sys, sysfs.dev)


def stick(hub: FakeUsbDevice, port: int, number: int, serial: str = "") -> FakeUsbDevice:
    """Plug in an adapter whose tty is ``ttyUSB`` with a number."""
    device = hub.plug(port, vendor=0x10C4, product=0xEA60, serial=serial, product_name="CP2102 UART\x1b[31m")
    adapter = device.interface(0, driver="cp210x").bus_device("usb-serial", f"ttyUSB{number}", driver="cp210x")
    adapter.class_device("tty", f"ttyUSB{number}", number=(188, number))
    return device


def found(machine: SysMachine, node: str) -> SysDevice:
    device = machine.by_node(node)
    assert device is not None
    return device


def event(action: str, device: FakeSysfsDevice) -> Uevent:
    return Uevent(action, str(device.place).partition("/sys")[2], {})


def test_a_tty_has_the_properties_of_its_stick(sysfs: FakeSysfs, hub: FakeUsbDevice) -> None:
    stick(hub, 3, 0, "A001")
    machine = machine_of(sysfs)
    tty = found(machine, "/dev/ttyUSB0")
    assert (tty.subsystem, tty.name, tty.number, tty.is_block) == ("tty", "ttyUSB0", (188, 0), False)
    assert machine.facts(tty) == {
        "subsystem": "tty",
        "name": "ttyUSB0",
        "node": "/dev/ttyUSB0",
        "driver": "cp210x",
        "vendor": "10c4",
        "product": "ea60",
        "serial": "A001",
        "model": "CP2102 UART [31m",
        "port": "1-3",
        "bus": "usb",
        "class": "ff",
        "address": "1-3",
        "numaNode": "1",
        "identity": "usb:10c4:ea60:A001/1.0/port0/ttyUSB",
    }
    assert machine.property_of(tty, "attr:speed") == "480"
    assert machine.property_of(tty, "property:BUSNUM") == "001"
    assert machine.property_of(tty, "attr:nothing") is None
    assert machine.pcie_root(tty) == "pci0000:00"


def test_a_hub_lends_nothing_to_what_is_plugged_into_it(sysfs: FakeSysfs, hub: FakeUsbDevice) -> None:
    hub.attribute("serial", "0000:00:14.0")
    inner = hub.plug(2, vendor=0x1A40, product=0x0101, serial="HUB", device_class=9)
    stick(inner, 4, 0)
    machine = machine_of(sysfs)
    assert machine.property_of(found(machine, "/dev/ttyUSB0"), "serial") is None
    assert machine.property_of(found(machine, "/dev/ttyUSB0"), "port") == "1-2.4"


def test_what_belongs_together_is_below_its_physical_device(sysfs: FakeSysfs, hub: FakeUsbDevice) -> None:
    stick(hub, 1, 0)
    stick(hub, 11, 1)
    machine = machine_of(sysfs)
    raw = machine.physical(found(machine, "/dev/ttyUSB0"))
    assert raw.node == "/dev/bus/usb/001/002"
    assert [each.subsystem for each in machine.below(raw)] == ["usb", "usb-serial", "tty"]
    assert [each.name for each in machine.ancestors(raw)] == ["usb1", "0000:00:14.0"]
    assert [each.name for each in machine.devices_of("tty")] == ["ttyUSB0", "ttyUSB1"]


def test_a_serial_number_is_the_identity_in_any_port(sysfs: FakeSysfs, hub: FakeUsbDevice) -> None:
    first = stick(hub, 1, 0, "A")
    stick(hub, 2, 1, "B")
    before = [machine_of(sysfs).identity(each) for each in machine_of(sysfs).devices_of("tty")]
    first.remove()
    stick(hub, 5, 7, "A")
    machine = machine_of(sysfs)
    assert sorted(machine.identity(each) for each in machine.devices_of("tty")) == sorted(before)


@pytest.mark.parametrize("serial", ["", "0001", "0000"])
def test_identical_sticks_stay_apart_by_their_ports(sysfs: FakeSysfs, hub: FakeUsbDevice, serial: str) -> None:
    first = stick(hub, 1, 0, serial)
    stick(hub, 2, 1, serial)
    machine = machine_of(sysfs)
    before = {each.node: machine.identity(machine.physical(each)) for each in machine.devices_of("tty")}
    assert len(set(before.values())) == 2
    assert before["/dev/ttyUSB0"].endswith("@0000:00:14.0/0-1")
    first.remove()
    stick(hub, 1, 5, serial)  # another number, the same port
    machine = machine_of(sysfs)
    assert machine.identity(machine.physical(found(machine, "/dev/ttyUSB5"))) == before["/dev/ttyUSB0"]


def test_an_identity_stays_when_a_second_device_tells_the_same(sysfs: FakeSysfs, hub: FakeUsbDevice) -> None:
    """A pod may have the first one: under another name it would be given away a second time."""
    first = stick(hub, 1, 0, "A5")
    machine = machine_of(sysfs)
    tty = found(machine, "/dev/ttyUSB0")
    assert machine.identity(tty) == "usb:10c4:ea60:A5/1.0/port0/ttyUSB"
    second = stick(hub, 2, 1, "A5")
    for part in second.walk():
        assert machine.apply(event("add", part)) == {event("", part).path}
    later = found(machine, "/dev/ttyUSB1")
    for _ in range(2):
        assert machine.identity(tty) == "usb:10c4:ea60:A5/1.0/port0/ttyUSB"
        assert machine.identity(later) == "usb:10c4:ea60:A5@0000:00:14.0/0-2/1.0/port0/ttyUSB"
        machine.refresh()
    gone = [event("remove", each) for each in reversed([*first.walk()])]
    first.remove()
    assert frozenset().union(*map(machine.apply, gone)) == {each.path for each in gone}
    assert "@" in machine.identity(later)
    again = stick(hub, 1, 0, "A5")
    for part in again.walk():
        machine.apply(event("add", part))
    assert machine.identity(machine.physical(found(machine, "/dev/ttyUSB0"))).endswith("@0000:00:14.0/0-1")


def test_a_uevent_tells_what_changed(sysfs: FakeSysfs, hub: FakeUsbDevice) -> None:
    first = stick(hub, 1, 0, "0001")
    machine = machine_of(sysfs)
    tty = found(machine, "/dev/ttyUSB0")
    first.bind("")
    assert machine.physical(tty).driver == "usb"
    assert machine.apply(event("unbind", first)) == {event("", first).path}
    assert machine.physical(tty).driver == ""
    gone = [event("remove", each) for each in reversed([*first.walk()])]
    first.remove()
    assert frozenset().union(*map(machine.apply, gone)) == {each.path for each in gone}
    assert machine.by_node("/dev/ttyUSB0") is None
    assert machine.devices_of("tty") == ()


def test_a_comparison_finds_all_that_uevents_would_tell(sysfs: FakeSysfs, hub: FakeUsbDevice) -> None:
    first = stick(hub, 1, 0, "0001")
    machine = machine_of(sysfs)
    assert len(machine.all()) == 6
    tty = found(machine, "/dev/ttyUSB0")
    assert machine.property_of(tty, "attr:speed") == "480"
    assert machine.refresh() == frozenset()
    first.attribute("speed", "12")
    assert machine.refresh() == {event("", first).path}
    assert machine.property_of(tty, "attr:speed") == "12"
    second = stick(hub, 2, 1, "0001")
    paths = {event("", each).path for each in second.walk()}
    assert machine.identity(tty)
    assert machine.refresh() == paths
    second.remove()
    assert machine.refresh() == paths
    assert [*map(machine.device, map(SysPath, paths))] == [None] * 4


@pytest.mark.parametrize("serial", ["0001", "0", "00000001", "1234", "0123456789", "123456789abc"])
def test_a_serial_number_of_the_factory_is_not_trusted(sysfs: FakeSysfs, hub: FakeUsbDevice, serial: str) -> None:
    stick(hub, 4, 0, serial)
    machine = machine_of(sysfs)
    assert machine.identity(machine.physical(found(machine, "/dev/ttyUSB0"))).endswith("@0000:00:14.0/0-4")


def test_virtual_devices_are_known_by_their_names(sysfs: FakeSysfs) -> None:
    sysfs.virtual("misc", "kvm", number=(10, 232))
    sysfs.virtual("block", "loop0", number=(7, 0))
    machine = machine_of(sysfs)
    kvm, loop = found(machine, "/dev/kvm"), found(machine, "/dev/loop0")
    assert [machine.identity(each) for each in (kvm, loop)] == ["virtual:misc/kvm", "virtual:block/loop0"]
    assert machine.physical(kvm) == kvm
    assert loop.is_block
    assert machine.property_of(kvm, "bus") == "virtual"
    assert machine.numa_nodes(kvm) == frozenset()
    assert machine.pcie_root(kvm) == ""


def test_links_of_udev_lead_to_their_node(sysfs: FakeSysfs, hub: FakeUsbDevice) -> None:
    stick(hub, 1, 0)
    machine = machine_of(sysfs)
    for name in ("by-path/pci-1", "by-id/usb-A", "by-id/dangling/../usb-B"):
        link = sysfs.dev / "serial" / Path(name.replace("dangling/../", ""))
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to("../../ttyUSB0")
    (sysfs.dev / "serial/by-id/away").symlink_to("../../../../etc/passwd")
    links = ("/dev/serial/by-id/usb-A", "/dev/serial/by-id/usb-B", "/dev/serial/by-path/pci-1")
    assert machine.node_links("/dev/ttyUSB0") == links
    assert found(machine, links[0]).name == "ttyUSB0"
    (sysfs.dev / "serial/by-id/usb-A").unlink()
    machine.forget_links()
    assert machine.node_links("/dev/ttyUSB0") == links[1:]
