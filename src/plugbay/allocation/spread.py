"""Evenly over the groups: no one of them carries more than it has to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

from plugbay.allocation.preference import Key, Question, physical_device
from plugbay.model.devices import Device


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
