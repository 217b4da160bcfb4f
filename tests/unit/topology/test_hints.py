"""Hints from sets of units and the nodes they lie on."""

from __future__ import annotations

from collections.abc import Mapping
from math import comb
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugbay.topology.hints import Hint, generate_hints
from plugbay.topology.masks import mask_of, nodes_of

ONE_EACH: Mapping[int, int] = MappingProxyType({0: 0b01, 1: 0b10})
TWO_EACH: Mapping[int, int] = MappingProxyType({0: 0b0011, 1: 0b1100})


def hints(*nodes: tuple[int, ...], preferred: int) -> tuple[Hint, ...]:
    """For each set of nodes, of which the first few are preferred."""
    return tuple(Hint(mask_of(each), number < preferred) for number, each in enumerate(nodes))


def test_s100_one_of_one_on_each_node_prefers_either() -> None:
    found = generate_hints(ONE_EACH, [0, 1], required=1, available=0b11)
    assert found == hints((0,), (1,), (0, 1), preferred=2)


def test_s101_two_of_one_on_each_node_prefer_both() -> None:
    assert generate_hints(ONE_EACH, [0, 1], required=2, available=0b11) == hints((0, 1), preferred=1)


def test_s102_one_in_use_on_each_node_leaves_what_nobody_would_prefer() -> None:
    assert generate_hints(TWO_EACH, [0, 1], required=2, available=0b1010) == hints((0, 1), preferred=0)


def test_smallest_sets_that_would_do_are_preferred() -> None:
    found = generate_hints({0: 0b001, 1: 0b010, 2: 0b100}, [0, 1, 2], required=2, available=0b111)
    assert found == hints((0, 1), (0, 2), (1, 2), (0, 1, 2), preferred=3)


def test_reusable_units_must_be_covered_and_count() -> None:
    found = generate_hints(TWO_EACH, [0, 1], required=2, available=0b1010, reusable=0b0001)
    assert found == hints((0,), (0, 1), preferred=1)


def test_reusable_unit_that_lies_nowhere_is_never_covered() -> None:
    assert generate_hints(ONE_EACH, [0, 1], required=1, available=0b11, reusable=0b100) == ()


def test_request_of_nothing_is_met_everywhere() -> None:
    assert generate_hints(ONE_EACH, [0, 1], required=0, available=0) == hints((0,), (1,), (0, 1), preferred=2)


def test_s106_only_nodes_with_devices_are_gone_through() -> None:
    """All sets of so many nodes nobody would live to see."""
    found = generate_hints(ONE_EACH, range(64), required=1, available=0b11)
    assert found == hints((0,), (1,), (0, 1), preferred=2)


def test_s107_nodes_the_machine_does_not_have_are_ignored() -> None:
    found = generate_hints({0: 0b01, 99: 0b10, -1: 0b10}, [0, 1], required=1, available=0b11)
    assert found == hints((0,), preferred=1)


def test_devices_on_unknown_nodes_only_lie_on_none_of_the_machines() -> None:
    assert generate_hints({99: 0b1}, [0, 1], required=1, available=0b1) == ()
    assert generate_hints({99: 0b1}, [1, 0], required=0, available=0b1) == hints((1,), (0,), (0, 1), preferred=2)


def test_of_many_nodes_small_sets_are_gone_through_and_the_fullest_of_each_other_size() -> None:
    one_each = {node: 1 << node for node in range(34)}
    everything = (1 << 34) - 1

    def found(required: int) -> tuple[Hint, ...]:
        return generate_hints(one_each, range(34), required=required, available=everything)

    assert [hint for hint in found(1) if hint.preferred] == [Hint(1 << node, True) for node in range(34)]
    assert len(found(2)) == comb(34, 2) + 34 - 2
    assert found(10) == tuple(Hint((1 << size) - 1, size == 10) for size in range(10, 35))
    assert found(35) == ()


@settings(max_examples=20)
@given(
    owners=st.lists(st.integers(0, 12), min_size=13, max_size=40),
    required=st.integers(1, 40),
    available=st.integers(0, 2**40 - 1),
    reusable=st.integers(0, 2**40 - 1),
)
def test_of_many_nodes_the_smallest_sets_that_would_do_are_known(
    owners: list[int], required: int, available: int, reusable: int
) -> None:
    """Where a unit lies on one node: whether anything is possible, and preferred, is as if all sets were looked at."""
    by_node = {node: sum(1 << unit for unit, owner in enumerate(owners) if owner == node) for node in range(13)}
    by_node = {node: units or 1 << (50 + node) for node, units in by_node.items()}
    reusable &= sum(by_node.values()) & (1 << 3) - 1
    found = generate_hints(by_node, range(13), required=required, available=available, reusable=reusable)
    smallest, possible, on = 13, set(), {0: 0}
    for mask in range(1, 2**13):
        units = on[mask] = on[mask & (mask - 1)] | by_node[next(nodes_of(mask))]
        if units.bit_count() >= required:
            smallest = min(smallest, mask.bit_count())
        if reusable & ~units == 0 and (units & (available | reusable)).bit_count() >= required:
            possible.add(mask)
    assert {hint.mask for hint in found} <= possible
    assert {hint.mask.bit_count() for hint in found if hint.mask} == {mask.bit_count() for mask in possible}
    assert all(hint.preferred == (hint.mask is not None and hint.mask.bit_count() == smallest) for hint in found)


def test_twelve_nodes_are_gone_through_in_every_way() -> None:
    one_each = {node: 1 << node for node in range(12)}
    assert len(generate_hints(one_each, range(12), required=1, available=2**12 - 1)) == 2**12 - 1


@given(
    by_node=st.dictionaries(st.integers(0, 3), st.integers(1, 63), min_size=1),
    required=st.integers(1, 6),
    available=st.integers(0, 63),
)
def test_hints_are_the_sets_of_nodes_with_enough_free_units(
    by_node: dict[int, int], required: int, available: int
) -> None:
    found = generate_hints(by_node, range(4), required=required, available=available)
    masks = [hint.mask for hint in found if hint.mask is not None]

    def on(mask: int) -> int:
        units = 0
        for node in nodes_of(mask):
            units |= by_node[node]
        return units

    sets = [mask for mask in range(1, 16) if all(node in by_node for node in nodes_of(mask))]
    assert sorted(masks) == [mask for mask in sets if (on(mask) & available).bit_count() >= required]
    sizes = [mask.bit_count() for mask in sets if on(mask).bit_count() >= required]
    for hint, mask in zip(found, masks, strict=True):
        assert hint.preferred == (mask.bit_count() == min(sizes))


@pytest.mark.parametrize("count", [2, 8])
def test_thousands_of_devices_are_no_burden(count: int) -> None:
    by_node = {node: sum(1 << rank for rank in range(node, 4_000, count)) for node in range(count)}
    found = generate_hints(by_node, range(count), required=1, available=(1 << 4_000) - 1)
    assert len(found) == 2**count - 1
