"""Scores of all groups of devices at once. A group is an int; the device at place 0 is its highest bit."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from operator import add

Scores = Sequence[Sequence[int]]
"""The score of each pair of devices, by place: symmetric, with zeros on the diagonal."""


def group_sums(scores: Scores) -> list[int]:
    """The sum of the scores of all pairs in each group, by group: 65,536 sums for 16 devices, in about 4 ms."""
    count = len(scores)
    sums = [0]
    for place in reversed(range(count)):
        links = [0]  # the scores between this device and each group of the later ones, summed
        for later in reversed(range(place + 1, count)):
            score = scores[place][later]
            links += [each + score for each in links]
        sums += list(map(add, sums, links))
    return sums


@cache
def groups_of(count: int, size: int) -> Sequence[int]:
    """All groups of ``size`` out of ``count`` devices, in the order of their places: (0, 1, 2), (0, 1, 3) and so on.

    That is the descending order of the numbers, as place 0 is the highest bit. There are at most 12,870 out of 16
    devices; as an array they stay small.
    """
    bits = [1 << place for place in reversed(range(count))]
    return array("H", map(sum, combinations(bits, size)))


def group_of(places: Sequence[int], count: int) -> int:
    """The group of the devices at ``places``."""
    return sum(1 << (count - 1 - place) for place in places)


def places_of(group: int, count: int) -> tuple[int, ...]:
    """The places of a group's devices, ascending."""
    return tuple(place for place in range(count) if group >> (count - 1 - place) & 1)
