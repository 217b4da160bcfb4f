"""USB devices by vendor, product and serial number: one by one, in sets, and all together."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.plugins.generic.config.rules import GenericConfig, NodeRule, RuleGroup, Usb, UsbRule
from plugbay.plugins.generic.machine.machine import SysMachine
from plugbay.plugins.generic.selecting.memory import RuleMemory
from plugbay.plugins.generic.selecting.selection import RuleSelection
from plugbay.plugins.generic.selecting.tree import HostTree
from tests.unit.plugins.generic.selecting.machines import Bench, node, nodes_of, units_of, where
from tests.unit.plugins.generic.selecting.trees import entry

STICK = UsbRule(0x10C4, 0xEA60)
OTHER = UsbRule(0x10C4, 0xEA70)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def sticks(*rules: UsbRule, count: int = 1, bundles: bool = False, nodes: tuple[NodeRule, ...] = ()) -> RuleGroup:
    return RuleGroup(Usb(rules, bundles=bundles, nodes=nodes), count=count)


def test_each_match_is_a_unit_with_its_raw_node_in_the_order_of_ports(bench: Bench) -> None:
    for port in (10, 9, 2):
        bench.stick(port, f"ttyUSB{port}", serial=f"A{port}")
    bench.hub.plug(5, vendor=0x10C4, product=0xFFFF)
    units = units_of(bench.look(entry("stick", sticks(STICK))))
    assert sorted((unit.id, *nodes_of((unit,))) for unit in units) == [
        ("usb:10c4:ea60:A10", ["/dev/bus/usb/001/002"]),
        ("usb:10c4:ea60:A2", ["/dev/bus/usb/001/004"]),
        ("usb:10c4:ea60:A9", ["/dev/bus/usb/001/003"]),
    ]
    assert {each.permissions for unit in units for each in unit.nodes} == {"rw"}
    assert all(unit.physical == unit.id for unit in units)


def test_an_id_stays_when_a_stick_is_plugged_in_again_elsewhere(bench: Bench) -> None:
    stick = bench.stick(1, "ttyUSB0", serial="A001")
    [before] = units_of(bench.look(entry("stick", sticks(STICK))))
    stick.remove()
    bench.stick(4, "ttyUSB3", serial="A001")
    [after] = units_of(bench.look(entry("stick", sticks(STICK))))
    assert before.id == after.id
    assert before.nodes != after.nodes


def test_identical_sticks_stay_apart_by_their_ports(bench: Bench) -> None:
    found = [bench.stick(port, f"ttyUSB{port}") for port in (1, 2, 3, 4)]
    before = {unit.sys_paths[0]: unit.id for unit in units_of(bench.look(entry("stick", sticks(STICK))))}
    assert len(set(before.values())) == 4
    found[1].remove()
    bench.stick(2, "ttyUSB9")
    assert {unit.sys_paths[0]: unit.id for unit in units_of(bench.look(entry("stick", sticks(STICK))))} == before


def test_a_serial_number_counts_as_it_is(bench: Bench) -> None:
    bench.stick(1, "ttyUSB0", serial="ab ")
    bench.stick(2, "ttyUSB1", serial="AB")
    for serial, count in (("ab ", 1), ("ab", 0), ("AB", 1), ("", 2)):
        rule = replace(STICK, serial=serial)
        assert len(units_of(bench.look(entry("stick", sticks(rule))))) == count


def test_a_rule_may_leave_out_vendor_or_product(bench: Bench) -> None:
    bench.stick(1, "ttyUSB0")
    bench.stick(2, "ttyUSB1", product=0xEA70)
    assert len(units_of(bench.look(entry("stick", sticks(UsbRule(0x10C4, None)))))) == 2
    assert len(units_of(bench.look(entry("stick", sticks(UsbRule(None, 0xEA70)))))) == 1
    assert len(units_of(bench.look(entry("all", sticks(UsbRule(None, None)))))) == 3  # the root hub too


def test_several_rules_make_complete_sets(bench: Bench) -> None:
    for port, product in ((1, 0xEA60), (2, 0xEA60), (3, 0xEA70), (4, 0xEA60)):
        bench.stick(port, f"ttyUSB{port}", product=product)
    assert nodes_of(units_of(bench.look(entry("pair", sticks(STICK, OTHER))))) == [
        ["/dev/bus/usb/001/002", "/dev/bus/usb/001/004"],
    ]
    assert nodes_of(units_of(bench.look(entry("twins", sticks(STICK, STICK))))) == [
        ["/dev/bus/usb/001/002", "/dev/bus/usb/001/003"],
    ]
    # What only one rule takes is left to it by the rule that takes anything of the vendor.
    assert len(units_of(bench.look(entry("pair", sticks(UsbRule(0x10C4, None), OTHER))))) == 1
    assert units_of(bench.look(entry("none", sticks(STICK, UsbRule(1, 1))))) == ()


def test_rules_that_are_alternatives_are_told_to_make_no_set(bench: Bench) -> None:
    bench.stick(1, "ttyUSB0")
    bench.stick(2, "ttyUSB1")
    found = bench.look(entry("either", sticks(STICK, OTHER)))
    assert [trouble.text for trouble in found.troubles] == [
        "2 devices match rule 1, no device matches rule 2; several rules in one list choose sets with a device for each"
        " rule, and none is complete: write a group for each rule if they are alternatives."
    ]
    [trouble] = bench.look(entry("three", sticks(STICK, STICK, STICK))).troubles
    assert trouble.text.startswith("2 devices match rule 1, 2 devices match rule 2, 2 devices match rule 3; several")
    for group in (sticks(OTHER, UsbRule(1, 1)), sticks(STICK, OTHER, bundles=True), sticks(STICK, STICK)):
        assert bench.look(entry("quiet", group)).troubles == ()


def test_a_set_stays_while_all_its_devices_are_there(bench: Bench) -> None:
    rules = entry("pair", sticks(STICK, OTHER))
    first = bench.stick(1, "ttyUSB0", serial="S1")
    bench.stick(2, "ttyUSB1", serial="S2")
    dongles = [bench.stick(port, f"ttyUSB{port}", serial=f"D{port}", product=0xEA70) for port in (3, 4)]
    selection = bench.selection(rules)
    kept = {unit.id: nodes_of((unit,)) for unit in units_of(selection.look())}
    assert nodes_of(units_of(selection.look())) == [
        ["/dev/bus/usb/001/002", "/dev/bus/usb/001/004"],
        ["/dev/bus/usb/001/003", "/dev/bus/usb/001/005"],
    ]
    parts = [*first.walk()][::-1]
    first.remove()
    [left] = units_of(bench.after(selection, "remove", *parts))
    assert kept[left.id] == nodes_of((left,)) == [["/dev/bus/usb/001/003", "/dev/bus/usb/001/005"]]
    bench.devices.refresh()
    assert units_of(selection.look()) == (left,), "a whole look, as after SIGHUP, keeps it as well"
    fresh = bench.selection(rules, memory=selection.memory)
    assert units_of(fresh.look()) == (left,), "and so does another config"
    bench.stick(1, "ttyUSB0", serial="S1")
    bench.devices.refresh()
    assert {unit.id for unit in units_of(fresh.look())} == kept.keys()
    dongles[1].remove()
    bench.devices.refresh()
    assert nodes_of(units_of(fresh.look())) == [["/dev/bus/usb/001/006", "/dev/bus/usb/001/004"]]


@pytest.mark.parametrize("has_compat_ids", [False, True])
@pytest.mark.parametrize("copy", [0, 1])
def test_a_set_that_a_pod_had_when_the_process_began_is_the_same_again(
    bench: Bench, copy: int, has_compat_ids: bool
) -> None:
    rules = entry("pair", sticks(STICK, OTHER, count=2))
    first = bench.stick(1, "ttyUSB0", serial="S1")
    second = bench.stick(2, "ttyUSB1", serial="S2")
    for port in (3, 4):
        bench.stick(port, f"ttyUSB{port}", serial=f"D{port}", product=0xEA70)
    units = units_of(bench.look(rules, has_compat_ids=has_compat_ids))
    [held] = [unit for unit in units if unit.copy == copy and bench.path(second) in unit.sys_paths]
    first.remove()
    assert held.id not in {unit.id for unit in units_of(bench.look(rules, has_compat_ids=has_compat_ids))}
    memory = RuleMemory({held.resource: {held.id: ()}})
    assert held in units_of(bench.look(rules, has_compat_ids=has_compat_ids, memory=memory))


def test_a_bundle_is_one_unit_with_the_id_of_the_other_plugin(bench: Bench) -> None:
    for port in (10, 2):
        bench.stick(port, f"ttyUSB{port}")
    group = sticks(STICK, replace(STICK, serial=""), UsbRule(1, 1), bundles=True, count=2)
    units = units_of(bench.look(entry("all", group)))
    raw = ["/dev/bus/usb/001/003", "/dev/bus/usb/001/002"]
    assert nodes_of(units) == [raw, raw]
    ids = {hashlib.sha1(f"{copy}{''.join(raw * 2)}".encode()).hexdigest() for copy in range(2)}
    assert {unit.id for unit in units} == ids


def test_units_have_the_ids_of_the_other_plugin_on_demand(bench: Bench) -> None:
    bench.stick(1, "ttyUSB0", serial="A001")
    [unit] = units_of(bench.look(entry("stick", sticks(STICK)), has_compat_ids=True))
    assert unit.id == hashlib.sha1(b"0/dev/bus/usb/001/002").hexdigest()


def test_the_nodes_of_a_stick_come_with_it_or_instead_of_its_raw_node(bench: Bench) -> None:
    stick = bench.stick(1, "ttyUSB7", serial="A001")
    stick.interface(1, driver="usbhid").class_device("hidraw", "hidraw0", number=(240, 0))
    tty = node(where(subsystem="tty"), "/dev/zigbee")
    hid = node(where(subsystem="hidraw"), "/dev/{serial}/")
    [unit] = units_of(bench.look(entry("stick", sticks(STICK, nodes=(tty, hid)))))
    assert [(each.host_path, each.container_path) for each in unit.nodes] == [
        ("/dev/ttyUSB7", "/dev/zigbee"),
        ("/dev/hidraw0", "/dev/A001/hidraw0"),
        ("/dev/bus/usb/001/002", "/dev/bus/usb/001/002"),
    ]
    assert unit.facts == {"path": "/dev/zigbee", "hostPath": "/dev/ttyUSB7", "name": "ttyUSB7", "serial": "A001"}
    [bare] = units_of(bench.look(entry("stick", RuleGroup(Usb((STICK,), nodes=(tty,), has_raw_node=False)))))
    assert nodes_of((bare,)) == [["/dev/ttyUSB7"]]


def test_several_nodes_of_one_rule_are_in_the_order_of_their_numbers(bench: Bench) -> None:
    interface = bench.stick(1, "ttyUSB0").interface(1, driver="usbhid")
    for number in (10, 9):
        interface.class_device("hidraw", f"hidraw{number}", number=(240, number))
    [unit] = units_of(bench.look(entry("stick", sticks(STICK, nodes=(node(where(subsystem="hidraw")),)))))
    assert nodes_of((unit,)) == [["/dev/hidraw9", "/dev/hidraw10", "/dev/bus/usb/001/002"]]


def test_a_stick_without_a_node_of_a_rule_is_no_unit_and_that_is_told(bench: Bench) -> None:
    bench.hub.plug(1, vendor=0x10C4, product=0xEA60, serial="A001")
    tty = node(where(subsystem="tty"))
    found = bench.look(entry("stick", sticks(STICK, nodes=(tty,))))
    assert units_of(found) == ()
    assert "usb:10c4:ea60:A001 has no node for the rule of nodes" in found.troubles[0].text
    optional = sticks(STICK, nodes=(replace(tty, is_optional=True),))
    assert nodes_of(units_of(bench.look(entry("stick", optional)))) == [["/dev/bus/usb/001/002"]]


def test_devices_behind_a_hub_are_not_part_of_the_hub(bench: Bench) -> None:
    hub = bench.hub.plug(1, vendor=0x0451, product=0x2046, device_class=9)
    inner = hub.plug(3, vendor=0x10C4, product=0xEA60)
    inner.interface(0).class_device("tty", "ttyACM0", number=(166, 0))
    any_node = node(where(node="*"))
    [unit] = units_of(bench.look(entry("hub", sticks(UsbRule(0x0451, None), nodes=(any_node,)))))
    assert nodes_of((unit,)) == [["/dev/bus/usb/001/002"]]


def test_sticks_come_and_go_by_uevents(bench: Bench) -> None:
    rules = entry("stick", sticks(STICK, nodes=(node(where(subsystem="tty")),)))
    selection = bench.selection(rules)
    assert units_of(selection.look()) == ()
    stick = bench.stick(1, "ttyUSB0", serial="1")
    there = bench.after(selection, "add", *stick.walk())
    assert there == bench.look(rules)
    assert len(units_of(there)) == 1
    selection = bench.selection(rules)
    selection.look()
    gone = [*stick.walk()][::-1]
    stick.remove()
    assert units_of(bench.after(selection, "remove", *gone)) == ()


@pytest.mark.parametrize("link", ["", "../../../devices/pci0/usb1/1-1", "../../../elsewhere/1-1", "absolute"])
def test_a_tree_with_nothing_but_the_attributes_that_squats_plugin_reads_will_do(tmp_path: Path, link: str) -> None:
    """No uevent, no links to subsystems, and perhaps directories where the kernel has links."""
    listed = tmp_path / "sys/bus/usb/devices"
    listed.mkdir(parents=True)
    place = listed / "1-1"
    if link:
        target = str(tmp_path / "sys/devices/1-1") if link == "absolute" else link
        place.symlink_to(target)
        place = listed / target
    place.mkdir(parents=True)
    for name, text in {
        "idVendor": "10c4",
        "idProduct": "ea60",
        "busnum": "12",
        "devnum": "127",
        "serial": "A1",
    }.items():
        (place / name).write_text(f"{text}\n")
    (listed / "1-1:1.0").mkdir()
    (listed / "1-1:1.0/bInterfaceNumber").write_text("00\n")
    machine = SysMachine(tmp_path / "sys", tmp_path / "dev")
    rules = GenericConfig("rules.yaml", (entry("stick", sticks(STICK)),))
    [unit] = units_of(RuleSelection(rules, machine, HostTree(tmp_path)).look())
    assert (unit.id, nodes_of((unit,))) == ("usb:10c4:ea60:A1", [["/dev/bus/usb/012/127"]])
    assert machine.refresh() == frozenset()
    compat = replace(rules, has_compat_ids=True)
    [unit] = units_of(RuleSelection(compat, machine, HostTree(tmp_path)).look())
    assert unit.id == "7a9d85c90228bccc98419c203c26a71ea1a1ce74"
