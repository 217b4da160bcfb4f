"""The best group of the best partition, beside a literal enumeration of all partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.allocation.partition.choice import MOST_DEVICES, best_group
from plugbay.allocation.partition.exchange import good_partition
from plugbay.allocation.partition.prices import Shape, candidates
from plugbay.allocation.partition.sums import Groups, all_groups, group_of, groups_of, places_of

PADDING = -1
Group = tuple[int, ...]


def partitions(elements: Sequence[int], size: int) -> Iterator[list[Group]]:
    """All partitions in the order of the reference; elements may end with padding, which stays in one group."""
    if not elements:
        yield []
        return
    first, others = elements[0], elements[1:]
    for chosen in combinations(range(len(others)), size - 1):
        group = (first, *(others[index] for index in chosen))
        if group.count(PADDING) in (0, elements.count(PADDING)):
            left = [element for index, element in enumerate(others) if index not in chosen]
            for following in partitions(left, size):
                yield [group, *following]


def worth(scores: Sequence[Sequence[int]], group: Group) -> int:
    return sum(scores[one][other] for one, other in combinations(group, 2) if PADDING not in (one, other))


def literal(scores: Sequence[Sequence[int]], required: Sequence[int], size: int) -> Group:
    """The reference's steps, one by one, with its defects mended: no group with padding is ever the answer."""
    count = len(scores)
    if size == 1:
        return tuple(required) or (0,)
    best: list[Group] = []
    best_worth = -1
    for partition in partitions([*range(count), *[PADDING] * (-count % size)], size):
        whole = [group for group in partition if PADDING not in group and set(required) <= set(group)]
        total = sum(worth(scores, group) for group in partition)
        if whole and total > best_worth:
            best, best_worth = whole, total
    return max(best, key=lambda group: worth(scores, group))


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[list[int]], list[int], int]:
    """Scores of a few values, so that there are many ties, or of many."""
    count = draw(st.integers(1, 8))
    value = st.sampled_from(draw(st.sampled_from([[10], [10, 20], [10, 30, 50, 250], list(range(10, 1860, 50))])))
    scores = [[0] * count for _ in range(count)]
    for one, other in combinations(range(count), 2):
        scores[one][other] = scores[other][one] = draw(value)
    if draw(st.booleans()):  # make some devices equal
        groups = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
        for one, other in combinations(range(count), 2):
            scores[one][other] = scores[other][one] = [10, 50][groups[one] == groups[other]]
    size = draw(st.integers(1, count))
    required = draw(st.lists(st.integers(0, count - 1), unique=True, max_size=size))
    return scores, required, size


@given(questions())
def test_the_answer_is_that_of_a_literal_enumeration(question: tuple[list[list[int]], list[int], int]) -> None:
    scores, required, size = question
    assert best_group(scores, required, size) == literal(scores, required, size)


@given(questions())
def test_no_group_of_a_partition_at_least_as_good_is_ruled_out(
    question: tuple[list[list[int]], list[int], int],
) -> None:
    scores, _, size = question
    count = len(scores)
    if not 1 < size < count:
        return
    known = good_partition(scores, (), size)
    shape = Shape(count, size)
    full, rest = all_groups(scores, (size, shape.rest))
    allowed = candidates(full, rest if shape.rest else Groups((), ()), shape, known)
    for partition in partitions([*range(count), *[PADDING] * (-count % size)], size):
        if sum(worth(scores, group) for group in partition) >= known.total:
            bits = {group_of([place for place in group if place != PADDING], count) for group in partition}
            assert bits <= {*allowed.full.bits, *allowed.rest.bits}


@given(questions())
def test_a_good_partition_is_one(question: tuple[list[list[int]], list[int], int]) -> None:
    scores, required, size = question
    found = good_partition(scores, required, size)
    groups = [
        tuple(place for place, each in enumerate(found.group_of) if each == number)
        for number in range(max(found.group_of) + 1)
    ]
    assert [len(group) for group in groups[:-1]] == [size] * (len(groups) - 1)
    assert {found.group_of[place] for place in required} <= {0}
    assert found.total == sum(worth(scores, group) for group in groups)


def test_sums_and_groups_agree_on_their_bits() -> None:
    scores = [[0, 1, 2, 4], [1, 0, 8, 16], [2, 8, 0, 32], [4, 16, 32, 0]]
    assert [places_of(group, 4) for group in groups_of(4, 3)] == [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
    assert [list(groups.sums) for groups in all_groups(scores, (3, 1, 4))] == [[11, 21, 38, 56], [0] * 4, [63]]
    assert group_of((0, 3), 4) == 0b1001


@pytest.mark.parametrize("size", [3, 16])
def test_more_devices_than_are_searched_get_a_good_answer(size: int) -> None:
    places = range(MOST_DEVICES + 8)
    scores = [[0 if one == other else 50 if one % 8 == other % 8 else 10 for other in places] for one in places]
    chosen = best_group(scores, [5], size)
    assert len(chosen) == size
    assert 5 in chosen
    if size == 3:
        assert chosen == (5, 13, 21)
