"""The first of the best partitions, out of the groups that can be part of one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from plugbay.allocation.partition.prices import Shape, Shortlist, price_tables
from plugbay.allocation.partition.sums import Scores


def first_best(shape: Shape, twins: Sequence[int], allowed: Shortlist, least: int) -> dict[int, int]:
    """The groups of the best partition and their sums, in order; of several partitions, the one that comes first.

    Partitions are compared by the group of the device at place 0, then by that of the first device that is left, and
    so on; groups by their places.

    Args:
        twins: for each place, the group that holds the device's twin before it: see `twins_before`.
        least: the worth of a partition that is known to exist.
    """
    search = _Search(shape, twins, allowed)
    everything = (1 << shape.count) - 1
    found = search.best(everything, least)
    assert found is not None, "the known partition is one of those that are searched"
    groups = {}
    left = everything
    while left:
        group = search.found[left][1]
        groups[group] = search.sums[group]
        left ^= group
    return groups


def twins_before(scores: Scores, required: int) -> list[int]:
    """For each place, the group of the nearest device before it that could take its place; 0 for none.

    Two devices are twins if they have the same scores with every other device, and are both required or both not.
    """
    count = len(scores)
    before = [0] * count
    for place in range(count):
        for other in reversed(range(place)):
            bits = 1 << (count - 1 - place), 1 << (count - 1 - other)
            if bool(bits[0] & required) == bool(bits[1] & required) and all(
                scores[place][each] == scores[other][each] for each in range(count) if each not in (place, other)
            ):
                before[place] = bits[1]
                break
    return before


@dataclass(slots=True)
class _Search:
    """A search by the group of the first device that is left, remembered by the devices that are left.

    Of twins, a group takes those that come first: with twins exchanged a partition is worth the same, and comes later.

    Attributes:
        found: devices that are left to the worth of their best partition and its first group.
        refused: devices that are left to the worth that they cannot reach.
    """

    shape: Shape
    twins: Sequence[int]
    allowed: Shortlist
    found: dict[int, tuple[int, int]] = field(default_factory=dict)
    refused: dict[int, int] = field(default_factory=dict)
    sums: dict[int, int] = field(init=False)
    groups: list[int] = field(init=False)
    by_first: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    low: list[int] = field(init=False)
    high: list[int] = field(init=False)
    needs_low: list[int] = field(init=False)
    needs_high: list[int] = field(init=False)

    def __post_init__(self) -> None:
        allowed = (self.allowed.full, self.allowed.rest)
        self.sums = {group: each for groups in allowed for group, each in zip(groups.bits, groups.sums, strict=True)}
        self.groups = sorted(self.sums)
        self.low, self.high = price_tables(self.allowed.prices)
        self.needs_low, self.needs_high = _twin_tables(self.twins)

    def starting(self, left: int) -> list[tuple[int, int, int]]:
        """The groups with the first device of ``left`` and none before, in order; with the twins each needs, and sums.

        For one first device after the other, as few of them are met if there are many groups.
        """
        length = left.bit_length()
        if length not in self.by_first:
            within = bisect_left(self.groups, 1 << (length - 1)), bisect_left(self.groups, 1 << length)
            self.by_first[length] = [
                (group, (self.needs_low[group & 255] | self.needs_high[group >> 8]) & ~group, self.sums[group])
                for group in reversed(self.groups[slice(*within)])
            ]
        return self.by_first[length]

    def best(self, left: int, least: int) -> int | None:
        """The worth of the best partition of ``left``; None if it is below ``least``."""
        if not left:
            return 0 if least <= 0 else None
        if left in self.found:
            worth = self.found[left][0]
            return worth if worth >= least else None
        if left in self.refused and least >= self.refused[left]:
            return None
        chosen = self._chosen(left, least)
        if chosen is None:
            self.refused[left] = least
            return None
        self.found[left] = chosen
        return chosen[0]

    def _chosen(self, left: int, least: int) -> tuple[int, int] | None:
        low, high, count, size = self.low, self.high, left.bit_count(), self.shape.size
        best: tuple[int, int] | None = None
        has_rest = count % size != 0
        outside = ~left
        all_prices = low[left & 255] + high[left >> 8]
        rest_surplus = self.allowed.rest_surplus
        # The most that what is left besides a group can be worth, less its prices.
        beside_full = (count // size - 1) * self.allowed.full_surplus + (rest_surplus if has_rest else 0)
        beside_rest = count // size * self.allowed.full_surplus
        for group, needs, worth in self.starting(left):
            if group & outside or needs & left:
                continue
            if group.bit_count() == size:
                beside = beside_full
            elif has_rest:
                beside = beside_rest
            else:
                continue
            if worth - low[group & 255] - high[group >> 8] + all_prices + beside < least:
                continue
            others = self.best(left ^ group, least - worth)
            if others is not None:
                best = (worth + others, group)
                least = worth + others + 1
        return best


def _twin_tables(twins: Sequence[int]) -> tuple[list[int], list[int]]:
    """The twins before the devices of each group of the last eight devices, and of each group of those before."""
    tables = []
    backwards = twins[::-1]
    for part in (backwards[:8], backwards[8:]):
        table = [0]
        for before in part:
            table += [each | before for each in table]
        tables.append(table)
    return tables[0], tables[1]
