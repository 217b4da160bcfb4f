"""The group that a request gets: the best of the best partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plugbay.allocation.partition.exchange import good_partition
from plugbay.allocation.partition.prices import Shape, candidates
from plugbay.allocation.partition.search import first_best, twins_before
from plugbay.allocation.partition.sums import Scores, group_of, group_sums, groups_of, places_of

MOST_DEVICES: Final = 16
"""Up to so many devices the answer is exact; the time and memory of an exact one double with every further device."""

_FINE: Final = 64
"""Prices are whole numbers, in this part of the unit of scores."""


def best_group(scores: Scores, required: Sequence[int], size: int) -> tuple[int, ...]:
    """The places of the devices for a request, ascending.

    All devices are split into groups of ``size``, and a smaller one if the count is no multiple, so that the sum of
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
    sums = group_sums(fine)
    wanted = group_of(required, count)
    shape = Shape(count, size)
    if count <= 2 * size:
        partition = _best_halves(sums, wanted, shape)
    else:
        known = good_partition(fine, required, size)
        allowed = candidates(shape, sums, wanted, known)
        partition = first_best(shape, sums, twins_before(fine, wanted), allowed, known.total)
    eligible = [group for group in partition if group & wanted == wanted and group.bit_count() == size]
    return places_of(max(eligible, key=sums.__getitem__), count)


def _best_halves(sums: Sequence[int], required: int, shape: Shape) -> tuple[int, ...]:
    """The best partition into two groups, the one with place 0 first."""
    everything = (1 << shape.count) - 1
    first = 1 << (shape.count - 1)
    groups: Sequence[int] = groups_of(shape.count, shape.size)
    if shape.rest:
        groups = [group for group in groups if group & required == required]
    else:
        groups = [group for group in groups if group & first and group & required in (0, required)]
    worths = [sums[group] + sums[everything ^ group] for group in groups]
    most = max(worths)
    equal = (group for group, worth in zip(groups, worths, strict=True) if worth == most)
    begin = max(group if group & first else everything ^ group for group in equal)
    return begin, everything ^ begin


def _good_group(scores: Scores, required: Sequence[int], size: int) -> tuple[int, ...]:
    partition = good_partition(scores, required, size)
    full = len(scores) // size
    groups = [tuple(place for place, each in enumerate(partition.group_of) if each == group) for group in range(full)]
    eligible = [group for group in sorted(groups) if set(required) <= set(group)]
    return max(eligible, key=lambda group: sum(scores[one][other] for one in group for other in group))
