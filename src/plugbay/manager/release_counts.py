"""What PostStopContainer and Deallocate have cost so far, as plain numbers; `spec 12.10` names the metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from plugbay.manager.operations import OperationKind
from plugbay.model.ids import ResourceName

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds; a call takes no longer than its deadline."""


@dataclass(slots=True)
class Durations:
    """How long calls took.

    Attributes:
        counts: calls by bucket of `BUCKETS_S`, not cumulated; the last one holds those that took longer.
        sum_s: of all.
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds


@dataclass(slots=True)
class ReleaseCounts:
    """
    Attributes:
        durations: by call, resource and status code in the words of Go: ``OK``, ``DeadlineExceeded``.
        exhausted: calls that were given up.
    """

    durations: dict[tuple[OperationKind, ResourceName, str], Durations] = field(default_factory=dict)
    exhausted: Counter[tuple[OperationKind, ResourceName]] = field(default_factory=Counter)

    def called(self, kind: OperationKind, resource: ResourceName, code: str, seconds: float) -> None:
        self.durations.setdefault((kind, resource, code), Durations()).add(seconds)
