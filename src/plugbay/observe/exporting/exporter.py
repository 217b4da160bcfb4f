"""Keep the view of a node and the text of its metrics up to date, and show the last one while that cannot be done."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from plugbay.observe.exporting.bounds import MAX_SERIES, dropped_metric
from plugbay.observe.exporting.series import node_metrics, source_metrics
from plugbay.observe.view import ObservedNode
from plugbay.ops.clock import Clock
from plugbay.ops.metrics import Metric, MetricKind, exposition
from plugbay.ops.pages import Pages
from plugbay.ops.process import process_metrics

logger = logging.getLogger(__name__)

_PROC: Final = Path("/proc/self")
_GAUGE: Final = MetricKind.GAUGE
_STALE: Final = "metrics show the last known view, marked as stale, if there is one"
_LESS: Final = "metrics lack what only this source tells"


class NodeExporter:
    """The last view of a node as pages.

    A view without an answer of the kubelet does not replace one that has it: a kubelet that restarts leaves no gap. The
    pages say then that they are stale, and how old they are.

    Attributes:
        view: the one that is shown; None before the first.
        latest: the last one that was read, partial or not.
    """

    def __init__(self, clock: Clock, *, max_series: int = MAX_SERIES) -> None:
        self.view: ObservedNode | None = None
        self.latest: ObservedNode | None = None
        self._clock = clock
        self._started = clock.now()
        self._max_series = max_series
        self._text = ""
        self._dropped: dict[str, int] = {}
        self._readings: Counter[str] = Counter()

    async def show(self, view: ObservedNode) -> None:
        """Take a view in. The text is made apart from the event loop: 10,000 devices take a tenth of a second."""
        self._log(view)
        self._readings["partial" if view.is_partial else "complete"] += 1
        if self.view is None or self.view.is_partial or not view.is_partial:
            self._text, self._dropped = await asyncio.to_thread(self._made, view)
            self.view = view
        self.latest = view

    @property
    def is_stale(self) -> bool:
        return self.view is not self.latest

    def pages(self) -> Pages:
        return Pages(self._metrics, {}, self._unready, self._status, texts=self._texts)

    def _made(self, view: ObservedNode) -> tuple[str, dict[str, int]]:
        made = node_metrics(view, max_series=self._max_series)
        return "".join(exposition(made.metrics)), made.dropped

    def _texts(self) -> Iterator[str]:
        yield self._text

    def _metrics(self) -> Iterator[Metric]:
        if self.view is not None and self.latest is not None:
            sources = source_metrics(self.latest, max_series=self._max_series)
            yield from sources.metrics
            yield dropped_metric({**self._dropped, **sources.dropped})
            yield _one("plugbay_node_view_stale", "1 while the last known view is shown.", self.is_stale)
            yield _one("plugbay_node_view_age_seconds", "The age of what is shown.", self._age_s(self.view.taken))
        readings = [({"outcome": outcome}, self._readings[outcome]) for outcome in ("complete", "partial")]
        yield Metric("plugbay_node_readings_total", MetricKind.COUNTER, "How often the node was read.", readings)
        yield from process_metrics(_PROC, started=self._started)

    def _age_s(self, taken: datetime) -> float:
        return max(0.0, (self._clock.now() - taken).total_seconds())

    def _unready(self) -> list[str]:
        if self.latest is None:
            return ["the node has not been read yet"]
        return [problem.sentence for problem in self.latest.problems] if self.latest.is_partial else []

    def _status(self) -> object:
        view = self.view
        return {
            "startTime": self._started.isoformat(timespec="seconds"),
            "viewTime": None if view is None else view.taken.isoformat(timespec="seconds"),
            "stale": self.is_stale,
            "ready": not self._unready(),
            "problems": [] if self.latest is None else [problem.sentence for problem in self.latest.problems],
        }

    def _log(self, view: ObservedNode) -> None:
        before = {problem.sentence for problem in self.latest.problems} if self.latest else set()
        for problem in view.problems:
            if problem.sentence not in before:
                meaning = _STALE if view.is_partial else _LESS
                logger.warning("%s: %s", problem.sentence, meaning)
        if before and not view.problems:
            logger.info("everything on the node can be read again")


def _one(name: str, text: str, value: float) -> Metric:
    return Metric(name, _GAUGE, text, [({}, value)])
