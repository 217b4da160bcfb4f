"""Preferences of the generic plugin: what devices of one container have in common, and one share of each."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.plugins.generic.answers.devices import device_of
from plugbay.plugins.generic.answers.preferring import preferred
from plugbay.plugins.generic.config.rules import PreferenceRule
from plugbay.plugins.generic.selecting.units import Unit
from tests.unit.plugins.generic.answers.units import group, unit

NIC = [
    unit("a", physical="card0", pcie_root="pci0000:00", numa_nodes=frozenset({0})),
    unit("b", physical="card1", pcie_root="pci0000:80", numa_nodes=frozenset({1})),
    unit("c", physical="card0", pcie_root="pci0000:00", numa_nodes=frozenset({1})),
    unit("d", physical="card2", pcie_root="pci0000:80", numa_nodes=frozenset({0})),
    unit("e", physical="card1", pcie_root="pci0000:c0", numa_nodes=frozenset({1})),
]


def choice(
    units: Iterable[Unit], size: int, prefers: PreferenceRule = PreferenceRule.NONE, *, among: str = "", must: str = ""
) -> str:
    units = list(units)
    devices = [device_of(each) for each in units if not among or each.id in among]
    settled = [device for device in devices if device.id in must]
    chosen = preferred({each.id: each for each in units}, prefers, devices, settled, size)
    return "".join(device.id for device in chosen)


@pytest.mark.parametrize(
    ("prefers", "chosen"),
    [
        (PreferenceRule.NONE, "ab"),
        (PreferenceRule.NUMA, "ad"),
        (PreferenceRule.PCIE_ROOT, "ac"),
        (PreferenceRule.PHYSICAL, "ac"),
    ],
)
def test_devices_have_in_common_what_the_rules_prefer(prefers: PreferenceRule, chosen: str) -> None:
    assert choice(NIC, 2, prefers) == chosen


def test_devices_that_must_be_included_decide_where_the_others_are() -> None:
    assert choice(NIC, 2, PreferenceRule.PCIE_ROOT, must="b") == "bd"
    assert choice(NIC, 2, PreferenceRule.PHYSICAL, must="b") == "be"


def test_devices_without_a_root_have_none_in_common() -> None:
    assert choice([unit("a"), unit("b"), *NIC[2:]], 2, PreferenceRule.PCIE_ROOT, among="abce") == "ab"


SHARES = [unit(f"{card}{copy}", group(one_share=True), physical=card) for card in "ab" for copy in "012"]


def test_a_container_is_preferred_one_share_of_each_device() -> None:
    assert choice(SHARES, 2) == "a0b0"
    assert choice(SHARES, 2, PreferenceRule.PHYSICAL) == "a0b0"


def test_shares_that_must_be_included_count() -> None:
    assert choice(SHARES, 2, must="b1") == "a0b1"
    assert choice(SHARES, 2, must="a1") == "a1b0"


def test_without_enough_devices_the_answer_is_complete_nevertheless() -> None:
    """A kubelet ignores answers of another size; Allocate refuses what it takes then."""
    assert choice(SHARES, 3) == "a0a1a2"


@given(st.data())
def test_any_choice_is_as_large_as_wanted_and_has_what_must_be_included(data: st.DataObject) -> None:
    keys = st.sampled_from(["x", "y", "z"])
    drawn = data.draw(st.lists(st.tuples(keys, keys, st.booleans()), min_size=1, max_size=8))
    units = [
        unit(f"{number}", group(one_share=is_one), physical=physical, pcie_root=root)
        for number, (physical, root, is_one) in enumerate(drawn)
    ]
    must = "".join(data.draw(st.sets(st.sampled_from([each.id for each in units]))))
    size = data.draw(st.integers(len(must), len(units)))
    prefers = data.draw(st.sampled_from(list(PreferenceRule)))
    chosen = choice(units, size, prefers, must=must)
    assert len(set(chosen)) == size
    assert set(must) <= set(chosen)
    assert choice(data.draw(st.permutations(units)), size, prefers, must=must) == chosen
