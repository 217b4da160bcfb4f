"""What PostStopContainer and Deallocate have cost so far, as plain numbers; `spec 12.10` names the metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from plugbay.manager.operations import OperationKind
from plugbay.model.ids import ResourceName
from plugbay.ops.metrics import Histogram

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds; a call takes no longer than its deadline."""


@dataclass(slots=True)
class ReleaseCounts:
    """What has come of the calls that end a use, for metrics.

    Attributes:
        durations: by call, resource and status code in the words of Go: ``OK``, ``DeadlineExceeded``.
        exhausted: calls that were given up.
    """

    durations: dict[tuple[OperationKind, ResourceName, str], Histogram] = field(default_factory=dict)
    exhausted: Counter[tuple[OperationKind, ResourceName]] = field(default_factory=Counter)

    def called(self, kind: OperationKind, resource: ResourceName, code: str, seconds: float) -> None:
        self.durations.setdefault((kind, resource, code), Histogram(BUCKETS_S)).observe(seconds)
