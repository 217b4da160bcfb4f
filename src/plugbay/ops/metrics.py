"""Metrics: values that their owners count, and the text that Prometheus reads.

The owners keep plain ints and `Histogram` values; the text is made of them when a reader asks. Written here and
not taken from prometheus-client: some of the kubelet's counters, whose names are ours too, end in ``_list`` or
``_count``, and that library can write no counter whose name does not end in ``_total``. It would also cost a plugin
process 5 MB.

Source: Prometheus text format 0.0.4, which is what a kubelet serves.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import accumulate
from typing import Final, TypeVar

from plugbay.values import dataclass

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The default bounds of Prometheus' clients, and those of the kubelet's histogram of Allocate."""


MAX_LABELS: Final = 1000
_Label = TypeVar("_Label", bound=Hashable)


class LabelCounter(Counter[_Label]):
    """Counts by labels that others choose, `MAX_LABELS` of them at most.

    Args:
        other: what all further labels count as.
    """

    def __init__(self, other: _Label) -> None:
        super().__init__()
        self._other = other

    def count(self, label: _Label) -> None:
        self[label if label in self or len(self) < MAX_LABELS else self._other] += 1


class MetricKind(Enum):
    """The value is the word in the ``TYPE`` line."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Histogram:
    """How many of the observed values lie below each bound.

    Args:
        bounds: in increasing order; each belongs to the values below it. The bucket for all others is implied.
    """

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    def buckets(self) -> Iterator[tuple[float, int]]:
        """Each bound, infinity at the end, with the number of values that are not above it."""
        return zip((*self._bounds, math.inf), accumulate(self._counts), strict=True)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric with all its samples, read at one moment.

    Attributes:
        samples: labels and value; a histogram if that is the kind. With none, nothing is written, as Go's library does.
    """

    name: str
    kind: MetricKind
    help: str
    samples: Iterable[tuple[Mapping[str, str], float | Histogram]]


def exposition(metrics: Iterable[Metric]) -> Iterator[str]:
    """The text for a scrape, in pieces. All samples of one metric are of the same moment; two metrics may differ."""
    for metric in metrics:
        samples = tuple(metric.samples)
        if samples:
            yield f"# HELP {metric.name} {_escaped(metric.help)}\n# TYPE {metric.name} {metric.kind.value}\n"
        for labels, value in samples:
            lines = "".join(_lines(metric.name, labels, value))
            yield lines.encode(errors="backslashreplace").decode()


def _lines(name: str, labels: Mapping[str, str], value: float | Histogram) -> Iterator[str]:
    if not isinstance(value, Histogram):
        yield _line(name, labels, value)
        return
    for bound, count in value.buckets():
        yield _line(f"{name}_bucket", {**labels, "le": _number(bound)}, count)
    yield _line(f"{name}_sum", labels, value.sum)
    yield _line(f"{name}_count", labels, value.count)


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{key}="{_escaped(text, quote=True)}"' for key, text in labels.items())
    return f"{name}{{{pairs}}} {_number(value)}\n" if pairs else f"{name} {_number(value)}\n"


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quote else text


def _number(value: float) -> str:
    """Write a number as Go does, for readers that compare labels such as ``le="1"``."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) else repr(value)
