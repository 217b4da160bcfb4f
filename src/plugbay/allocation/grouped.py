"""Preferences by group, such as NUMA node or physical device: few groups, or all groups evenly."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace
from itertools import accumulate

from plugbay.allocation.preference import Key, Question, physical_device
from plugbay.model.devices import Device
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Packed:
    """Prefer devices of as few groups as possible; of those choices, one that leaves the least free in its groups:
    larger groups stay whole for containers that need many devices.

    Ties go to the groups and devices that come first by ID.

    Attributes:
        by: what makes a group; by default the physical device behind replicas.
    """

    by: Key = physical_device

    def __call__(self, available: Sequence[Device], must_include: Sequence[Device], size: int) -> list[Device]:
        question = Question.of(available, must_include, size)
        groups = question.groups(self.by)
        entered = {self.by(device) for device in question.settled}
        ranks = [rank for key in entered for rank in groups.get(key, ())]
        others = [members for key, members in groups.items() if key not in entered]
        if (deficit := question.missing - len(ranks)) > 0:
            chosen = _tightest([len(members) for members in others], deficit)
            ranks += [rank for index in chosen for rank in others[index]]
        return question.answer(sorted(ranks)[: question.missing])


@dataclass(frozen=True, slots=True)
class Spread:
    """Prefer devices of the groups that have the most free ones, so that what stays free is spread evenly.

    Ties go to the devices that come first by ID.

    Attributes:
        by: what makes a group; by default the physical device behind replicas.
    """

    by: Key = physical_device

    def __call__(self, available: Sequence[Device], must_include: Sequence[Device], size: int) -> list[Device]:
        question = Question.of(available, must_include, size)
        members = list(question.groups(self.by).values())
        ranks: list[int] = []
        # A group is its number of free devices, most first, then the rank of its next device.
        heap = [(-len(group), group[0], 0, index) for index, group in enumerate(members)]
        heapify(heap)
        for _ in range(question.missing):
            free, rank, taken, index = heap[0]
            ranks.append(rank)
            following = members[index][taken + 1] if free < -1 else -1
            heapreplace(heap, (free + 1, following, taken + 1, index))
        return question.answer(ranks)


def _tightest(sizes: Sequence[int], deficit: int) -> list[int]:
    """The fewest groups that hold ``deficit`` together, with the least left over; as indexes.

    Sums are bits: bit s of ``reachable[i][k]`` says that k of the groups from i on hold exactly s.
    """
    count = 1 + sum(held < deficit for held in accumulate(sorted(sizes, reverse=True)))
    window = (1 << (deficit + max(sizes))) - 1  # a larger sum would do with a group less
    reachable = [[1] + [0] * count]
    for size in reversed(sizes):
        after = reachable[-1]
        taken = [0, *((after[k] << size) & window for k in range(count))]
        reachable.append([after[k] | taken[k] for k in range(count + 1)])
    reachable.reverse()
    enough = reachable[0][count] >> deficit
    left = deficit + (enough & -enough).bit_length() - 1
    chosen: list[int] = []
    for index, size in enumerate(sizes):
        needed = count - len(chosen)
        if needed and size <= left and reachable[index + 1][needed - 1] >> (left - size) & 1:
            chosen.append(index)
            left -= size
    return chosen
