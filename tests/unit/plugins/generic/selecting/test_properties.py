"""Any config on any machine: IDs are unique and stable, and the order in which devices are found does not count."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.model.ids import parse_device_id, parse_resource_name
from plugbay.plugins.generic.config.rules import (
    AllOf,
    AnyOf,
    Entry,
    GenericConfig,
    Interfaces,
    Match,
    NodeRule,
    Not,
    PathKind,
    PathRule,
    Paths,
    RuleGroup,
    Tokens,
    Usb,
    UsbRule,
    Where,
)
from plugbay.plugins.generic.machine.machine import SysMachine
from plugbay.plugins.generic.machine.values import SysDevice
from plugbay.plugins.generic.selecting.explaining import explain
from plugbay.plugins.generic.selecting.selection import select
from plugbay.plugins.generic.selecting.tree import HostTree
from plugbay.plugins.generic.selecting.units import SelectedUnits
from tests.unit.plugins.generic.selecting.machines import Bench

T = TypeVar("T")


class InAnyOrder(SysMachine):
    """A machine whose devices are found in an order that chance gives."""

    chance = random.Random(0)

    def devices_of(self, subsystem: str) -> tuple[SysDevice, ...]:
        return tuple(shuffled(super().devices_of(subsystem), self.chance))

    def below(self, device: SysDevice) -> Iterable[SysDevice]:  # type: ignore[override]
        return shuffled(super().below(device), self.chance)


class FilesInAnyOrder(HostTree):
    chance = random.Random(0)

    def names(self, directory: str) -> Iterable[str]:
        return shuffled(super().names(directory), self.chance)


def shuffled(values: Iterable[T], chance: random.Random) -> list[T]:
    found = list(values)
    chance.shuffle(found)
    return found


LAYOUTS: Final[tuple[list[tuple[str, int]], ...]] = (
    [],
    [("0001", 0xEA60), ("0002", 0xEA60)],
    [("", 0xEA60), ("", 0xEA60), ("", 0xEA70), ("", 0xEA60)],
    [("0001", 0xEA60), ("0001", 0xEA60), ("a b/../c", 0xEA70), ("é" * 40, 0xEA60)],
)
"""Serial numbers and products of what is plugged in: nothing, sticks apart, identical ones, and odd ones."""

PATTERNS = st.sampled_from(
    ["/dev/tty*", "/dev/ttyUSB[0-2]", "/dev/ttyUSB0", "/dev/by-id/*", "/dev/*", "/dev/gone", "/dev/["]
)
PATH_RULES = st.builds(
    PathRule,
    pattern=PATTERNS,
    mount_path=st.sampled_from(["", "/dev/x", "/dev/x/"]),
    kind=st.sampled_from(PathKind),
    limit=st.integers(0, 3),
    is_optional=st.booleans(),
    resolves=st.booleans(),
    takes_any_file=st.just(True),
)
VALUES = st.sampled_from(["*", "tty", "usb", "ttyUSB?", "0001", "10c4", "EA60", "[", "kvm"])
WHERES = st.builds(
    Where,
    name=st.sampled_from(["subsystem", "name", "node", "serial", "vendor", "product", "driver", "attr:speed", "class"]),
    patterns=st.lists(VALUES, max_size=2).map(tuple),
)
SELECTORS = st.recursive(
    WHERES,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, max_size=2).map(tuple)),
        st.builds(AnyOf, st.lists(inner, max_size=2).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=4,
)
NODE_RULES = st.builds(
    NodeRule,
    selector=WHERES,
    mount_path=st.sampled_from(["", "/dev/{serial}/", "/dev/{name}", "{serial}"]),
    is_optional=st.booleans(),
)
NODES = st.lists(NODE_RULES, max_size=2).map(tuple)
USB_RULES = st.builds(
    UsbRule,
    vendor=st.sampled_from([None, 0x10C4]),
    product=st.sampled_from([None, 0xEA60, 0xEA70]),
    serial=st.sampled_from(["", "0001"]),
)
WHATS = st.one_of(
    st.builds(Paths, st.lists(PATH_RULES, max_size=3).map(tuple)),
    st.builds(
        Usb, st.lists(USB_RULES, max_size=3).map(tuple), bundles=st.booleans(), nodes=NODES, has_raw_node=st.booleans()
    ),
    st.builds(Match, SELECTORS, nodes=NODES, is_each=st.booleans()),
    st.builds(Interfaces, SELECTORS),
    st.just(Tokens()),
)
GROUPS = st.lists(st.builds(RuleGroup, WHATS, count=st.integers(0, 3)), max_size=3).map(tuple)
ENTRIES = st.builds(
    Entry,
    name=st.sampled_from(["one", "two", "three", "{vendor}-{product}", "by-{serial}", "-bad"]),
    domain=st.just("example.com"),
    groups=GROUPS,
    is_shared=st.booleans(),
)
CONFIGS = st.builds(
    GenericConfig, st.just("rules.yaml"), st.lists(ENTRIES, max_size=4).map(tuple), has_compat_ids=st.booleans()
)


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> list[Bench]:
    """A machine for each layout."""
    made = []
    for sticks in LAYOUTS:
        bench = Bench(tmp_path_factory.mktemp("machine"))
        for port, (serial, product) in enumerate(sticks, start=1):
            bench.stick(port, f"ttyUSB{port}", serial=serial, product=product)
        bench.sysfs.virtual("misc", "kvm", number=(10, 232))
        bench.sysfs.virtual("net", "veth0")
        (bench.sysfs.dev / "by-id").mkdir()
        (bench.sysfs.dev / "by-id/stick").symlink_to("../ttyUSB1")
        made.append(bench)
    return made


@given(config=CONFIGS, layout=st.integers(0, len(LAYOUTS) - 1), seed=st.integers(0, 1000))
def test_ids_are_unique_and_stable_and_order_does_not_count(
    benches: list[Bench], config: GenericConfig, layout: int, seed: int
) -> None:
    bench = benches[layout]
    first = select(config, bench.machine(), HostTree(bench.root))
    FilesInAnyOrder.chance = InAnyOrder.chance = random.Random(seed)
    machine = InAnyOrder(bench.sysfs.sys, bench.sysfs.dev)
    assert select(config, machine, FilesInAnyOrder(bench.root)) == first
    check(config, first)


@given(config=CONFIGS, layout=st.integers(0, len(LAYOUTS) - 1))
def test_every_rule_has_a_word_on_a_device(benches: list[Bench], config: GenericConfig, layout: int) -> None:
    bench = benches[layout]
    explained = explain(config, bench.machine(), HostTree(bench.root), "/dev/ttyUSB1")
    assert len(explained.verdicts) == sum(len(entry.groups) for entry in config.entries)
    assert all(verdict.text.endswith(".") and verdict.text.isprintable() for verdict in explained.verdicts)


def check(config: GenericConfig, found: SelectedUnits) -> None:
    givers: dict[str, set[int]] = {}
    for name, units in found.units.items():
        assert parse_resource_name(name) == name
        ids = [parse_device_id(unit.id) for unit in units]
        assert ids == sorted(set(ids))
        for unit in units:
            assert unit.resource == name
            for node in unit.nodes:
                index = next(index for index, entry in enumerate(config.entries) if entry is unit.entry)
                givers.setdefault(node.host_path, set()).add(index)
    for givers_of_one in givers.values():
        assert len(givers_of_one) == 1 or all(config.entries[index].is_shared for index in givers_of_one)
    for trouble in found.troubles:
        assert trouble.text.endswith(".")
        assert trouble.text.isprintable()
