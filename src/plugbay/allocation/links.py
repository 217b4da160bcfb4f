"""Preference for the best connected devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb
from typing import Final

from plugbay.allocation.preference import Question
from plugbay.model.devices import Device
from plugbay.values import dataclass

MOST_COMBINATIONS: Final = 20_000
"""There are 12,870 ways to take 8 of 16 devices. With more choices than this, devices are taken one by one."""


@dataclass(frozen=True, slots=True)
class ByLinkScore:
    """Prefer devices with the highest sum of scores between any two of them; ties go to the first by ID.

    The best choice is found if there are at most 20,000 choices; otherwise devices are taken one by one, each time the
    device that adds most.

    Attributes:
        score: how good the link between two devices is, the same both ways; called once for each pair.
    """

    score: Callable[[Device, Device], float]

    def __call__(self, available: Sequence[Device], must_include: Sequence[Device], size: int) -> list[Device]:
        question = Question.of(available, must_include, size)
        if question.missing in (0, len(question.free)):
            return question.answer(range(question.missing and len(question.free)))
        free = question.free
        links = [[0.0] * len(free) for _ in free]
        for one, other in combinations(range(len(free)), 2):
            links[one][other] = links[other][one] = self.score(free[one], free[other])
        base = [sum(self.score(settled, device) for settled in question.settled) for device in free]
        search = _best if comb(len(free), question.missing) <= MOST_COMBINATIONS else _one_by_one
        return question.answer(search(base, links, question.missing))


def _best(base: Sequence[float], links: Sequence[Sequence[float]], count: int) -> Sequence[int]:
    def total(ranks: Sequence[int]) -> float:
        return sum(base[rank] for rank in ranks) + sum(links[one][other] for one, other in combinations(ranks, 2))

    return max(combinations(range(len(base)), count), key=total)  # among equal choices, the first in lexical order


def _one_by_one(base: Sequence[float], links: Sequence[Sequence[float]], count: int) -> Sequence[int]:
    gains, left = list(base), dict.fromkeys(range(len(base)))
    if not any(base):  # no device to start from: take the one with the best links overall
        gains = [sum(row) for row in links]
    chosen: list[int] = []
    while len(chosen) < count:
        rank = max(left, key=gains.__getitem__)
        if not chosen:
            gains = list(base)
        chosen.append(rank)
        del left[rank]
        gains = [gain + link for gain, link in zip(gains, links[rank], strict=True)]
    return chosen
