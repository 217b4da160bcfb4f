"""The group that a request gets: the best of the best partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plugbay.allocation.partition.exchange import good_partition
from plugbay.allocation.partition.prices import Shape, candidates, price_tables
from plugbay.allocation.partition.search import first_best, twins_before
from plugbay.allocation.partition.sums import Scores, all_groups, group_of, places_of

MOST_DEVICES: Final = 16
"""Up to so many devices the answer is exact; the time and memory of an exact one double with every further device."""

_FINE: Final = 64
"""Prices are whole numbers, in this part of the unit of scores."""


def best_group(scores: Scores, required: Sequence[int], size: int) -> tuple[int, ...]:
    """The places of the devices for a request, ascending.

    All devices are split into groups of ``size``, and a smaller one if the count is not a multiple, so that the sum of
    the scores of all pairs that share a group is the largest; the required ones share a group that is not the smaller
    one. Of equal splits the first is taken, by the group of the device at place 0, then by that of the next device
    that is left, and so on. The answer is its group with the largest sum that has all required devices, and of equal
    groups the first; the smaller group is never the answer. With more than `MOST_DEVICES` devices the split is a good
    one that no exchange of two devices improves.

    Args:
        scores: of each pair of the free devices; a request of one device does not look at them.
        required: distinct places, at most ``size``.
        size: at least 1 and at most the number of devices.

    Source: go-gpuallocator 0.6.0 ``gpuallocator/besteffort_policy.go``, less its defects.
    """
    count = len(scores)
    if size == count:
        return tuple(range(count))
    if len(required) == size:
        return tuple(sorted(required))
    if size == 1:
        return (0,)
    if count > MOST_DEVICES:
        return _good_group(scores, required, size)
    fine = [[0 if at == place else score * _FINE for at, score in enumerate(row)] for place, row in enumerate(scores)]
    wanted = group_of(required, count)
    partition = _best_halves(fine, wanted, size) if count <= 2 * size else _best_partition(fine, required, size)
    eligible = [group for group in partition if group & wanted == wanted and group.bit_count() == size]
    return places_of(max(eligible, key=partition.__getitem__), count)


def _best_partition(scores: Scores, required: Sequence[int], size: int) -> dict[int, int]:
    """The groups of the best partition and their sums, in order."""
    shape = Shape(len(scores), size)
    wanted = group_of(required, shape.count)
    full, rest = all_groups(scores, (shape.size, shape.rest))
    if wanted:
        full = full.only([group & wanted in (0, wanted) for group in full.bits])
        rest = rest.only([not group & wanted for group in rest.bits])
    if not shape.rest:
        rest = rest.only([])
    known = good_partition(scores, required, size)
    return first_best(shape, twins_before(scores, wanted), candidates(full, rest, shape, known), known.total)


def _best_halves(scores: Scores, required: int, size: int) -> dict[int, int]:
    """As `_best_partition`, where it has two groups: the smaller one says it all."""
    count = len(scores)
    everything, first = (1 << count) - 1, 1 << (count - 1)
    rest = count - size
    groups = all_groups(scores, (rest,))[0]
    if rest < size:
        groups = groups.only([not group & required for group in groups.bits])
    else:
        groups = groups.only([bool(group & first) and group & required in (0, required) for group in groups.bits])
    low, high = price_tables(list(map(sum, scores)))
    # Both groups have all scores, less those of the smaller one's devices, of which those inside count twice.
    worths = [
        2 * each - low[group & 255] - high[group >> 8] for group, each in zip(groups.bits, groups.sums, strict=True)
    ]
    most = max(worths)
    equal = [index for index, worth in enumerate(worths) if worth == most]
    # The partition that comes first is the one whose group with place 0 does, be it the smaller one.
    index = max(equal, key=lambda at: max(groups.bits[at], everything ^ groups.bits[at]))
    smaller = groups.bits[index]
    total = sum(map(sum, scores)) // 2 + most
    halves = {smaller: groups.sums[index], everything ^ smaller: total - groups.sums[index]}
    return dict(sorted(halves.items(), reverse=True))


def _good_group(scores: Scores, required: Sequence[int], size: int) -> tuple[int, ...]:
    partition = good_partition(scores, required, size)
    full = len(scores) // size
    groups = [tuple(place for place, each in enumerate(partition.group_of) if each == group) for group in range(full)]
    eligible = [group for group in sorted(groups) if set(required) <= set(group)]
    return max(eligible, key=lambda group: sum(scores[one][other] for one in group for other in group))
