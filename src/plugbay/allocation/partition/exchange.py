"""Good partitions, found by exchanging devices between groups as long as that helps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from plugbay.allocation.partition.sums import Scores
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition that no exchange of two devices improves.

    Attributes:
        group_of: the number of each device's group, by place; the group that is smaller comes last.
        ties: the sum of each device's scores with the devices of its own group, by place.
        links: the sum of each device's scores with all devices, by place.
        total: the sum of the scores of all pairs that share a group.
    """

    group_of: tuple[int, ...]
    ties: tuple[int, ...]
    links: tuple[int, ...]
    total: int


def good_partition(scores: Scores, required: Sequence[int], size: int) -> Partition:
    """A partition into groups of ``size`` and at most one smaller one, which is often but not always a best one.

    Args:
        required: places of devices that share the first group, which is not the smaller one.
    """
    found = (_improved(scores, order, len(required), size) for order in _orders(scores, required, size))
    return max(found, key=lambda partition: partition.total)


def _orders(scores: Scores, required: Sequence[int], size: int) -> Iterator[list[int]]:
    """Orders of the places to be cut into groups."""
    others = [place for place in range(len(scores)) if place not in required]
    yield [*required, *others]
    groups = -(-len(scores) // size)
    yield [*required, *(place for first in range(groups) for place in others[first::groups])]
    yield _grown(scores, list(required) or others[:1], size)
    lonely = min(others, key=lambda place: sum(scores[place]), default=0)
    yield _grown(scores, list(required) or [lonely], size)


def _grown(scores: Scores, first: list[int], size: int) -> list[int]:
    """An order in which each device of a group is the one that adds most to those before it."""
    order = list(first)
    left = [place for place in range(len(scores)) if place not in first]
    while left:
        group = order[len(order) // size * size :]
        best = max(left, key=lambda place: sum(scores[place][each] for each in group))
        order.append(best)
        left.remove(best)
    return order


def _improved(scores: Scores, order: Sequence[int], fixed: int, size: int) -> Partition:
    count = len(scores)
    group_of = [0] * count
    for index, place in enumerate(order):
        group_of[place] = index // size
    groups = range(-(-count // size))
    links = [[0] * len(groups) for _ in range(count)]  # of each device with each group
    for one, other in combinations(range(count), 2):
        links[one][group_of[other]] += scores[one][other]
        links[other][group_of[one]] += scores[one][other]
    movable = list(combinations(sorted(order[fixed:]), 2))
    while exchange := _best_exchange(scores, group_of, links, movable):
        one, other = exchange
        from_one, from_other = group_of[one], group_of[other]
        for row, of_one, of_other in zip(links, scores[one], scores[other], strict=True):
            row[from_one] += of_other - of_one
            row[from_other] += of_one - of_other
        group_of[one], group_of[other] = from_other, from_one
    ties = tuple(row[group] for row, group in zip(links, group_of, strict=True))
    return Partition(tuple(group_of), ties, tuple(map(sum, scores)), sum(ties) // 2)


def _best_exchange(
    scores: Scores, group_of: Sequence[int], links: Sequence[Sequence[int]], movable: Sequence[tuple[int, int]]
) -> tuple[int, int] | None:
    best, found = 0, None
    for pair in movable:
        one, other = pair
        here, there = group_of[one], group_of[other]
        if here == there:
            continue
        gain = links[one][there] - links[one][here] + links[other][here] - links[other][there] - 2 * scores[one][other]
        if gain > best:
            best, found = gain, pair
    return found
