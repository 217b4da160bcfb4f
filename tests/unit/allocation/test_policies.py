"""The ready-made policies against brute force on small cases."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay import Device, DevicePlugin, plugin
from plugbay.allocation import policies
from plugbay.allocation.grouped import Packed
from plugbay.allocation.links import MOST_COMBINATIONS, ByLinkScore
from plugbay.allocation.preference import Key
from plugbay.model.devices import PluginOptions
from plugbay.sdk.author.plugin import options_of

Policy = Callable[[Sequence[Device], Sequence[Device], int], list[Device]]
ALL_POLICIES: dict[str, Policy] = {
    "same_numa": policies.same_numa,
    "fewest_physical": policies.fewest_physical,
    "spread": policies.spread,
    "links": ByLinkScore(lambda one, other: (len(one.id) * 7 + ord(other.id[-1])) % 5),
}


@dataclass(frozen=True, slots=True)
class Asked:
    available: list[Device]
    must_include: list[Device]
    size: int

    def choices(self) -> list[tuple[Device, ...]]:
        """Everything a policy could answer."""
        return [
            chosen
            for chosen in combinations(self.available, self.size)
            if set(self.must_ids) <= {device.id for device in chosen}
        ]

    @property
    def must_ids(self) -> list[str]:
        return [device.id for device in self.must_include]


@st.composite
def questions(draw: st.DrawFn) -> Asked:
    """Up to nine replicas of up to four devices on up to three NUMA nodes, sorted by ID."""
    available = [
        Device(f"gpu{physical}::{replica}", numa_nodes=draw(st.sets(st.integers(0, 2), max_size=2)))
        for physical, count in enumerate(draw(st.lists(st.integers(0, 5), min_size=1, max_size=4)))
        for replica in range(count)
    ][:9]
    must = draw(st.lists(st.sampled_from(available), unique_by=lambda each: each.id)) if available else []
    return Asked(available, must, draw(st.integers(len(must), len(available))))


def ids(devices: Sequence[Device]) -> list[str]:
    return [device.id for device in devices]


@pytest.mark.parametrize("policy", ALL_POLICIES.values(), ids=ALL_POLICIES)
@given(asked=questions(), seed=st.integers())
def test_answer_is_legal_and_does_not_depend_on_order(policy: Policy, asked: Asked, seed: int) -> None:
    answer = ids(policy(asked.available, asked.must_include, asked.size))
    assert len(answer) == asked.size
    assert set(asked.must_ids) <= set(answer) <= set(ids(asked.available))
    assert answer == sorted(answer)
    shuffled, must = asked.available[:], asked.must_include[:]
    random.Random(seed).shuffle(shuffled)
    random.Random(seed).shuffle(must)
    assert ids(policy(shuffled, must, asked.size)) == answer


@pytest.mark.parametrize("by", [policies.numa_node, policies.physical_device])
@given(asked=questions())
def test_packed_touches_fewest_groups_and_leaves_least_in_them(by: Key, asked: Asked) -> None:
    def cost(chosen: Sequence[Device]) -> tuple[int, int]:
        groups = {by(device) for device in chosen}
        return len(groups), sum(by(device) in groups for device in asked.available)

    answer = Packed(by)(asked.available, asked.must_include, asked.size)
    assert cost(answer) == min(map(cost, asked.choices()))


@given(asked=questions())
def test_spread_leaves_free_devices_most_even(asked: Asked) -> None:
    def unevenness(chosen: Sequence[Device]) -> int:
        left = Counter(map(policies.physical_device, asked.available))
        left.subtract(map(policies.physical_device, chosen))
        return sum(count * count for count in left.values())

    answer = policies.spread(asked.available, asked.must_include, asked.size)
    assert unevenness(answer) == min(map(unevenness, asked.choices()))


@given(asked=questions(), scores=st.lists(st.integers(0, 9), min_size=81, max_size=81))
def test_link_score_is_highest(asked: Asked, scores: list[int]) -> None:
    ranks = {device.id: rank for rank, device in enumerate(asked.available)}

    def score(one: Device, other: Device) -> float:
        low, high = sorted((ranks[one.id], ranks[other.id]))
        return scores[9 * low + high]

    def total(chosen: Sequence[Device]) -> float:
        return sum(score(one, other) for one, other in combinations(chosen, 2))

    answer = ByLinkScore(score)(asked.available, asked.must_include, asked.size)
    assert total(answer) == max(map(total, asked.choices()))


def test_many_devices_are_chosen_by_their_links_one_by_one() -> None:
    """Two islands of 16: whatever must be included, its island is preferred."""
    devices = [Device(f"gpu{number:02}") for number in range(32)]

    def score(one: Device, other: Device) -> float:
        return 10 if (one.id < "gpu16") == (other.id < "gpu16") else 1

    policy = ByLinkScore(score)
    assert comb(31, 15) > MOST_COMBINATIONS
    assert ids(policy(devices, [devices[20]], 16)) == ids(devices[16:])
    assert ids(policy(devices, [], 16)) == ids(devices[:16])


def test_packed_keeps_the_larger_group_whole() -> None:
    devices = [Device(name, numa_nodes=[int(name[0])]) for name in ("0a", "0b", "0c", "1a", "1b", "2a", "2b", "2c")]
    assert ids(policies.same_numa(devices, [], 2)) == ["1a", "1b"]
    assert ids(policies.same_numa(devices, [], 3)) == ["0a", "0b", "0c"]
    assert ids(policies.same_numa(devices, [devices[5]], 2)) == ["2a", "2b"]
    assert ids(policies.same_numa(devices, [], 5)) == ["0a", "0b", "0c", "1a", "1b"]


def test_fewer_devices_than_asked_for_are_all_given() -> None:
    devices = [Device("a"), Device("b")]
    for policy in ALL_POLICIES.values():
        assert ids(policy(devices, [], 3)) == ["a", "b"]


def test_policy_is_one_line_in_a_plugin() -> None:
    class Cards(DevicePlugin):
        resource_name = "example.com/card"
        preferred_allocation = policies.same_numa

    @plugin("example.com/gopher", preferred_allocation=policies.spread)
    def gophers() -> list[Device]:
        return []

    devices = [Device(f"g::{number}") for number in range(3)]
    for made in (Cards(), gophers):
        assert options_of(made) == PluginOptions(get_preferred_allocation_available=True)
        assert made.preferred_allocation(devices, [], 2) == devices[:2]
