"""The rule that takes a device, and for each other rule why it does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.plugins.generic.config.rules import (
    AllOf,
    AnyOf,
    Entry,
    GenericConfig,
    Gifts,
    Interfaces,
    Match,
    Not,
    PathRule,
    RuleGroup,
    Tokens,
    Usb,
    UsbRule,
    Where,
)
from plugbay.plugins.generic.config.spots import Spot
from plugbay.plugins.generic.selecting.explaining import Explanation, explain
from plugbay.plugins.generic.selecting.tree import FileKind, HostTree
from tests.unit.plugins.generic.selecting.machines import Bench, node, where
from tests.unit.plugins.generic.selecting.trees import NoHardware, TreeOfData, config, entry, path_group


def texts(explanation: Explanation) -> list[str]:
    return [verdict.text for verdict in explanation.verdicts]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    bench.stick(1, "ttyUSB0", serial="A001")
    bench.sysfs.virtual("net", "veth0")
    return bench


def explained(bench: Bench, path: str, *entries: Entry) -> Explanation:
    return explain(GenericConfig("rules.yaml", entries), bench.machine(), HostTree(bench.root), path)


def test_the_rule_that_takes_a_device_is_named_with_its_line_and_ids(bench: Bench) -> None:
    group = replace(path_group(PathRule("/dev/ttyUSB*", takes_any_file=True), count=4), spot=Spot(7, 3))
    found = explained(bench, "/dev/ttyUSB0", entry("serial", group))
    [verdict] = found.verdicts
    assert found.what == ("/dev/ttyUSB0 is the device ttyUSB0 of the subsystem tty, part of usb:10c4:ea60:A001.")
    assert (verdict.place, verdict.entry, len(verdict.units)) == ("rules.yaml:7", "serial", 4)
    assert verdict.text.startswith("It is given by example.com/serial as ")
    assert verdict.text.endswith(" and 1 more.")


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        (path_group("/dev/ttyACM*"), "Its path is not '/dev/ttyACM*'."),
        (path_group("/dev/a", "/dev/b"), "Its path is none of '/dev/a', '/dev/b'."),
        (
            path_group("/dev/t*", "/dev/gone"),
            "/dev/t1 matches '/dev/t*', but the group also needs '/dev/gone', which has no match.",
        ),
        (
            path_group("/dev/t*", "/dev/c"),
            "/dev/t1 matches '/dev/t*', but it is beyond the units of the group: '/dev/c' is enough for 1 by its"
            " matches and its limit. Raise the limit.",
        ),
        (
            path_group("/dev/["),
            "The path '/dev/[' is not a pattern: this [ has no ] behind it; a bracket itself is \\[.",
        ),
        (RuleGroup(Usb((UsbRule(1, 1),))), "The rule takes USB devices, and this is not one."),
        (RuleGroup(Match(Where("name", ("x",)))), "The rule takes devices of the kernel, and sysfs shows none here."),
        (RuleGroup(Interfaces(Where("name", ("x",)))), "The rule takes network interfaces, and this is not one."),
        (RuleGroup(Tokens()), "The rule counts what is not a device."),
    ],
)
def test_why_a_file_is_not_taken(rules: RuleGroup, text: str) -> None:
    tree = TreeOfData(["/dev/t0", "/dev/t1", "/dev/c"])
    found = explain(config(entry("things", rules)), NoHardware(), tree, "/dev/t1")
    assert found.what == "/dev/t1 is a character device."
    assert texts(found) == [text]
    assert not found.verdicts[0].is_taken


def test_why_a_file_of_the_wrong_kind_is_not_taken() -> None:
    tree = TreeOfData({"/dev/t0": FileKind.OTHER, "/dev/link": "t0"})
    found = explain(config(entry("things", path_group("/dev/*"))), NoHardware(), tree, "/dev/link")
    assert found.what == "/dev/link is not a device node; it leads to /dev/t0."
    assert texts(found) == ["/dev/link matches '/dev/*', but it is not a device node."]
    gone = explain(config(entry("things", path_group("/dev/*"))), NoHardware(), tree, "/dev/gone")
    assert gone.what == "/dev/gone is not there."


def test_a_node_in_a_directory_that_is_given_is_taken() -> None:
    tree = TreeOfData(["/dev/snd/seq", "/dev/sndx"])
    rules = config(entry("audio", path_group("/dev/snd")))
    assert explain(rules, NoHardware(), tree, "/dev/snd/seq").verdicts[0].is_taken
    assert texts(explain(rules, NoHardware(), tree, "/dev/sndx")) == ["Its path is not '/dev/snd'."]


def test_a_file_that_another_entry_gives_is_told() -> None:
    tree = TreeOfData(["/dev/t0"])
    first = replace(entry("one", path_group("/dev/t0")), spot=Spot(3, 1))
    found = explain(config(first, entry("two", path_group("/dev/t*"))), NoHardware(), tree, "/dev/t0")
    assert [verdict.is_taken for verdict in found.verdicts] == [True, False]
    assert texts(found)[1] == (
        "The rule matches, but the entry 'one', line 3 gives it already, and not both entries say shared: true."
    )


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (UsbRule(0x1A86, None), "It is another USB device: its vendor is '10c4', not '1a86'."),
        (
            UsbRule(0x10C4, 0x7523, "2"),
            "It is another USB device: its product is 'ea60', not '7523' and its serial is 'A001', not '2'.",
        ),
        (UsbRule(0x10C4, 0xEA60), "The rule takes usb:10c4:ea60:A001, but its nodes do not choose /dev/ttyUSB0."),
    ],
)
def test_why_a_usb_device_is_not_taken(bench: Bench, rule: UsbRule, text: str) -> None:
    assert texts(explained(bench, "/dev/ttyUSB0", entry("stick", RuleGroup(Usb((rule,)))))) == [text]


def test_why_a_set_of_usb_devices_has_no_unit(bench: Bench) -> None:
    pair = RuleGroup(Usb((UsbRule(0x10C4, 0xEA60, spot=Spot(3, 9)), UsbRule(1, 1, spot=Spot(4, 9)))))
    [text] = texts(explained(bench, "/dev/bus/usb/001/002", entry("pair", pair)))
    assert text == (
        "It matches, but 1 device matches rule 1 (line 3), no device matches rule 2 (line 4); several rules in one "
        "list choose sets with a device for each rule, and none is complete: write a group for each rule if they are "
        "alternatives."
    )
    needy = RuleGroup(Usb((UsbRule(0x10C4, 0xEA60),), nodes=(node(where(subsystem="hidraw")),)))
    [text] = texts(explained(bench, "/dev/ttyUSB0", entry("stick", needy)))
    assert text.startswith("usb:10c4:ea60:A001 has no node for the rule of nodes, so it is not a unit")


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (
            AllOf((Where("subsystem", ("tty",)), Where("driver", ("ftdi*", "ch341"), spot=Spot(12, 9)))),
            "It does not match: its driver is 'cp210x', not 'ftdi*' or 'ch341' (line 12).",
        ),
        (where(subsystem="tty", manufacturer="*"), "It does not match: it has no manufacturer."),
        (
            AnyOf((Where("name", ("a",)), Where("serial", ("2",)))),
            "It does not match: its name is 'ttyUSB0', not 'a' and its serial is 'A001', not '2'.",
        ),
        (
            Not(AnyOf((Where("vendor", ("10c4",)), AllOf((Where("bus", ("usb",)), Not(Where("name", ("x",)))))))),
            "It does not match: the rule leaves out vendor '10c4' or bus 'usb' with all but name 'x', and it is that.",
        ),
        (
            where(subsystem="usb", devtype="usb_device", serial="A001"),
            "The rule matches 1-1, which is part of the same hardware, but does not give this node.",
        ),
    ],
)
def test_why_a_device_does_not_match(bench: Bench, selector: AllOf | AnyOf | Not, text: str) -> None:
    assert texts(explained(bench, "/dev/ttyUSB0", entry("tty", RuleGroup(Match(selector))))) == [text]


def test_devices_without_a_node_are_asked_for_by_their_place_in_sysfs_or_their_name(bench: Bench) -> None:
    interfaces = entry("net", RuleGroup(Interfaces(Where("name", ("veth*",)))))
    assert explained(bench, "veth0", interfaces).verdicts[0].is_taken
    assert texts(explained(bench, "veth1", interfaces)) == ["The rule takes network interfaces, and this is not one."]
    pci = entry("pci", RuleGroup(Match(where(subsystem="pci")), gifts=Gifts(env={"X": "y"})))
    place = "/sys" + bench.path(bench.controller)
    found = explained(bench, place, pci)
    assert found.what == f"{place} is the device 0000:00:14.0 of the subsystem pci."
    assert found.verdicts[0].is_taken


def test_a_unit_that_no_resource_can_be_named_after_is_told(bench: Bench) -> None:
    found = explained(bench, "/dev/ttyUSB0", entry("{manufacturer}", RuleGroup(Match(where(subsystem="tty")))))
    assert texts(found) == [
        "usb:10c4:ea60:A001 has no manufacturer, so '{manufacturer}' does not name it; use another property."
    ]
