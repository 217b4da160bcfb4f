"""Devices by their properties, with all nodes of one physical device; interfaces; tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from plugbay.plugins.generic.config.rules import (
    AllOf,
    AnyOf,
    Gifts,
    Interfaces,
    Match,
    NodeRule,
    Not,
    RuleGroup,
    Selector,
    Tokens,
    Where,
)
from plugbay.plugins.generic.selecting.units import SelectedUnits
from tests.unit.plugins.generic.selecting.machines import Bench, node, nodes_of, units_of, where
from tests.unit.plugins.generic.selecting.trees import entry

NO_GIFTS: Final = Gifts()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def match(selector: Selector, *nodes: NodeRule, is_each: bool = False, gifts: Gifts = NO_GIFTS) -> RuleGroup:
    return RuleGroup(Match(selector, nodes, is_each=is_each), gifts=gifts)


def names(bench: Bench, selector: Selector) -> list[str]:
    """The nodes of the devices that a selector chooses, each alone."""
    found = units_of(bench.look(entry("some", match(selector, is_each=True))))
    return [each for [each] in nodes_of(found)]


def test_selectors_choose_by_and_or_and_not(bench: Bench) -> None:
    bench.stick(1, "ttyUSB0", serial="A1")
    bench.stick(2, "ttyUSB1", serial="A2", product=0xEA70)
    bench.stick(3, "ttyUSB2")
    tty = where(subsystem="tty")
    assert names(bench, tty) == ["/dev/ttyUSB0", "/dev/ttyUSB1", "/dev/ttyUSB2"]
    assert names(bench, AllOf((Where("serial", ("A*",)), tty))) == ["/dev/ttyUSB0", "/dev/ttyUSB1"]
    assert names(bench, AllOf((tty, Not(Where("serial", ("*",)))))) == ["/dev/ttyUSB2"]
    assert names(bench, AllOf((tty, Where("product", ("EA7?", "none"))))) == ["/dev/ttyUSB1"]
    either = AnyOf((Where("serial", ("A1",)), Where("product", ("ea70",))))
    assert names(bench, AllOf((tty, either))) == ["/dev/ttyUSB0", "/dev/ttyUSB1"]
    assert names(bench, AllOf((tty, Not(either)))) == ["/dev/ttyUSB2"]
    assert names(bench, where(subsystem="tt*", driver="cp21[0-9]x", name="ttyUSB1")) == ["/dev/ttyUSB1"]
    of_those_above = where(subsystem="tty", attr_idVendor="10c4", property_BUSNUM="001")
    assert names(bench, of_those_above) == names(bench, tty)
    assert names(bench, AnyOf((where(subsystem="hidraw"), where(subsystem="tty", serial="A2")))) == ["/dev/ttyUSB1"]
    assert names(bench, AnyOf(())) == []


def test_the_devices_of_one_physical_device_are_one_unit(bench: Bench) -> None:
    for number, address in enumerate(("0000:3b:00.0", "0000:af:00.0")):
        gpu = bench.pci(address, pci_class=0x030000, numa_node=number)
        gpu.class_device("drm", f"card{number}", number=(226, number), devname=f"dri/card{number}")
        gpu.class_device(
            "drm", f"renderD{128 + number}", number=(226, 128 + number), devname=f"dri/renderD{128 + number}"
        )
        gpu.class_device("drm", f"card{number}-DP-1")
    units = units_of(bench.look(entry("gpu", match(where(subsystem="drm")))))
    assert nodes_of(units) == [["/dev/dri/card0", "/dev/dri/renderD128"], ["/dev/dri/card1", "/dev/dri/renderD129"]]
    assert {unit.id: (set(unit.numa_nodes), unit.pcie_root) for unit in units} == {
        "pci:0000:3b:00.0": ({0}, "pci0000:3b"),
        "pci:0000:af:00.0": ({1}, "pci0000:af"),
    }
    rule = node(where(name="renderD*"), "/dev/dri/renderD128")
    only = units_of(bench.look(entry("gpu", match(where(subsystem="drm", name="card?"), rule))))
    assert sorted((each.nodes[0].host_path, each.nodes[0].container_path) for each in only) == [
        ("/dev/dri/renderD128", "/dev/dri/renderD128"),
        ("/dev/dri/renderD129", "/dev/dri/renderD128"),
    ]


def test_an_hca_brings_its_verbs_its_management_and_the_connection_manager(bench: Bench) -> None:
    for number, address in enumerate(("0000:17:00.0", "0000:ca:00.0")):
        hca = bench.pci(address, pci_class=0x020700)
        hca.class_device("infiniband", f"mlx5_{number}")
        hca.class_device(
            "infiniband_verbs", f"uverbs{number}", number=(231, 192 + number), devname=f"infiniband/uverbs{number}"
        )
        hca.class_device("infiniband_mad", f"umad{number}", number=(231, number), devname=f"infiniband/umad{number}")
    bench.sysfs.virtual("misc", "rdma_cm").make_node("infiniband/rdma_cm", (10, 121))
    verbs, manager = node(where(subsystem="infiniband_*")), node(where(name="rdma_cm"))
    found = bench.look(entry("hca", match(where(subsystem="infiniband"), verbs, manager)))
    assert nodes_of(units_of(found)) == [
        ["/dev/infiniband/umad0", "/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"],
        ["/dev/infiniband/umad1", "/dev/infiniband/uverbs1", "/dev/infiniband/rdma_cm"],
    ]
    assert found.troubles == ()
    plain = units_of(bench.look(entry("hca", match(where(subsystem="infiniband_verbs")))))
    assert nodes_of(plain)[0] == ["/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"]


def test_a_vfio_group_brings_the_container_node_which_entries_share(bench: Bench) -> None:
    bench.sysfs.virtual("misc", "vfio").make_node("vfio/vfio", (10, 196))
    for group in (12, 13):
        for function in (0, 1):
            bench.pci(f"0000:{group}:00.{function}", pci_class=0x030000, group=group)
        bench.sysfs.virtual("vfio", str(group)).make_node(f"vfio/{group}", (244, group))
    entries = [entry(name, match(where(subsystem="vfio", name=name))) for name in ("12", "13")]
    found = bench.look(*entries)
    assert [nodes_of(units) for units in found.units.values()] == [
        [["/dev/vfio/12", "/dev/vfio/vfio"]],
        [["/dev/vfio/13", "/dev/vfio/vfio"]],
    ]
    assert [unit.id for units in found.units.values() for unit in units] == [
        "vfio:0000:12:00.0-0000:12:00.1-" + units_id(found, 0),
        "vfio:0000:13:00.0-0000:13:00.1-" + units_id(found, 1),
    ]


def units_id(found: SelectedUnits, place: int) -> str:
    """The digest at the end of the ID of the only unit of a resource."""
    return [*found.units.values()][place][0].id.rpartition("-")[2]


def test_a_device_without_a_node_is_a_unit_only_if_its_group_gives_something_else(bench: Bench) -> None:
    bench.pci("0000:3b:00.0", pci_class=0x120000)
    selector = where(subsystem="pci", **{"class": "120000"})
    found = bench.look(entry("accelerator", match(selector)))
    assert units_of(found) == ()
    assert "pci:0000:3b:00.0 matches and has no device node" in found.troubles[0].text
    [unit] = units_of(bench.look(entry("accelerator", match(selector, gifts=Gifts(env={"PCI": "{address}"})))))
    assert (unit.nodes, unit.facts) == ((), {"name": "0000:3b:00.0", "address": "0000:3b:00.0"})


def test_troubles_are_told_in_the_order_of_devices(bench: Bench) -> None:
    addresses = [f"0000:{bus:02x}:00.0" for bus in range(0x20, 0x40)]
    for address in reversed(addresses):
        bench.pci(address, pci_class=0x120000)
    found = bench.look(entry("accelerator", match(where(subsystem="pci", **{"class": "120000"}))))
    assert [trouble.text.split()[0] for trouble in found.troubles] == [f"pci:{address}" for address in addresses]


def test_capability_devices_are_units_by_name(bench: Bench) -> None:
    bench.sysfs.virtual("misc", "kvm", number=(10, 232))
    [unit] = units_of(bench.look(entry("kvm", match(where(name="kvm")))))
    assert (unit.id, nodes_of((unit,))) == ("virtual:misc-kvm-" + unit.id[-12:], [["/dev/kvm"]])


def test_interfaces_are_units_without_the_loopback(bench: Bench) -> None:
    bench.sysfs.virtual("net", "lo")
    card = bench.pci("0000:3b:00.0", pci_class=0x020000, numa_node=1)
    for name in ("ens1", "ens2"):
        card.class_device("net", name)
    group = RuleGroup(Interfaces(Where("name", ("*",))))
    units = units_of(bench.look(entry("net", group)))
    assert sorted(unit.interfaces for unit in units) == [("ens1",), ("ens2",)]
    assert len({unit.id for unit in units}) == 2
    assert {unit.physical for unit in units} == {"pci:0000:3b:00.0"}
    twice = bench.look(entry("net", group), entry("more", RuleGroup(Interfaces(Where("name", ("ens1",))))))
    assert [len(units) for units in twice.units.values()] == [0, 2]
    assert "interface ens1: the entry 'net', number 1 gives this already" in twice.troubles[0].text


def test_tokens_are_counted_over_the_groups(bench: Bench) -> None:
    licences = entry("licence", RuleGroup(Tokens(), count=3), RuleGroup(Tokens(), count=2))
    assert [unit.id for unit in units_of(bench.look(licences))] == [
        *("token-0", "token-1", "token-2", "token2-0", "token2-1"),
    ]


def test_numa_nodes_of_a_group_count_more_than_those_of_the_kernel(bench: Bench) -> None:
    gpu = bench.pci("0000:3b:00.0", pci_class=0x030000, numa_node=1)
    gpu.class_device("drm", "card0", number=(226, 0))
    for own, wanted in ((None, {1}), (frozenset({0}), {0}), (frozenset[int](), set[int]())):
        group = RuleGroup(Match(where(subsystem="drm")), numa_nodes=own)
        [unit] = units_of(bench.look(entry("gpu", group)))
        assert unit.numa_nodes == wanted


def test_matches_follow_uevents(bench: Bench) -> None:
    rules = (
        entry("tty", match(where(subsystem="tty", serial="A*"))),
        entry("every", match(AllOf((Where("node", ("*",)), Not(where(subsystem="tty")))), is_each=True)),
    )
    selection = bench.selection(*rules)
    selection.look()
    first, second = bench.stick(1, "ttyUSB0", serial="A1"), bench.stick(2, "ttyUSB1", serial="A2")
    seen = bench.after(selection, "add", *first.walk(), *second.walk())
    assert [len(units) for units in seen.units.values()] == [3, 2]
    first.attribute("serial", "B1")
    changed = bench.after(selection, "change", first)
    assert [len(units) for units in changed.units.values()] == [3, 1]
    gone = [*second.walk()][::-1]
    second.remove()
    left = bench.after(selection, "remove", *gone)
    assert [len(units) for units in left.units.values()] == [2, 0]
    assert left == bench.look(*rules)
