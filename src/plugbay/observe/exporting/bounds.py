"""A bound on the series of each metric, and the number of those that were left out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from plugbay.ops.metrics import Metric, MetricKind

Samples: TypeAlias = Iterable[tuple[Mapping[str, str], float]]
MAX_SERIES: Final = 20_000
"""The default bound of one metric: 1,000 pods with 10 devices each, twice."""
DROPPED: Final = "plugbay_node_series_dropped"


class BoundedMetrics:
    """Metrics of at most ``most`` series each: the first in the order given, which should not change by itself.

    Two samples with the same labels, which hostile names could make, would have a scrape refused; the first counts.

    Attributes:
        metrics: in the order in which they were added.
        dropped: how many series of each were left out.
    """

    def __init__(self, most: int = MAX_SERIES) -> None:
        self.metrics: list[Metric] = []
        self.dropped: dict[str, int] = {}
        self._most = most

    def gauge(self, name: str, text: str, samples: Samples) -> None:
        self._add(name, MetricKind.GAUGE, text, samples)

    def counter(self, name: str, text: str, samples: Samples) -> None:
        self._add(name, MetricKind.COUNTER, text, samples)

    def _add(self, name: str, kind: MetricKind, text: str, samples: Samples) -> None:
        each = _distinct(samples)
        kept = list(islice(each, self._most))
        self.metrics.append(Metric(name, kind, text, kept))
        self.dropped[name] = sum(1 for _ in each)


def dropped_metric(dropped: Mapping[str, int]) -> Metric:
    """The metric that tells how many series of each metric were left out."""
    samples = [({"metric": name}, count) for name, count in dropped.items()]
    return Metric(DROPPED, MetricKind.GAUGE, "Series left out, as a metric has more than the bound.", samples)


def _distinct(samples: Samples) -> Iterator[tuple[Mapping[str, str], float]]:
    seen: set[tuple[str, ...]] = set()
    for labels, value in samples:
        identity = tuple(labels.values())
        if identity not in seen:
            seen.add(identity)
            yield labels, value
