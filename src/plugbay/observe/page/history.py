"""The last hour of a node: how much of each resource was used when, and what happened. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from plugbay.documents import Json
from plugbay.observe.page.happenings import NodeHappening
from plugbay.observe.page.rows import ResourceRow, Rows

KEPT_S: Final = 3600.0
MOST_SAMPLES: Final = 360
"""The samples of one resource: one every ten seconds of the hour."""
MOST_EVENTS: Final = 500
_STEP_S: Final = KEPT_S / MOST_SAMPLES

Sample = list[float | int | None]
"""Seconds since 1970, and how many devices were allocated, allocatable and there at all."""


class History:
    """The last hour; it grows by one state at a time."""

    def __init__(self) -> None:
        self._samples: dict[str, deque[Sample]] = {}
        self._events: deque[NodeHappening] = deque(maxlen=MOST_EVENTS)

    def take(self, rows: Rows, found: Iterable[NodeHappening], *, at: float) -> None:
        """Take the state of the rows at a moment, and what has happened since the last one."""
        self._events.extend(found)
        for row in rows.values():
            if isinstance(row, ResourceRow):
                self._sample(row, at)
        self._forget(rows, at)

    def samples(self) -> dict[str, list[Sample]]:
        """By resource, oldest first."""
        return {name: list(samples) for name, samples in self._samples.items()}

    def events(self) -> Sequence[NodeHappening]:
        """Oldest first."""
        return tuple(self._events)

    def _sample(self, row: ResourceRow, at: float) -> None:
        samples = self._samples.setdefault(row.name, deque())
        values: Sample = [at, *row.counts]
        if samples and samples[-1][1:] == values[1:]:
            return  # what did not change is a level line
        if len(samples) > 1 and (samples[-1][0] or 0) // _STEP_S == at // _STEP_S:
            samples.pop()  # of many changes in one step the last one counts
        samples.append(values)

    def _forget(self, rows: Rows, at: float) -> None:
        oldest = at - KEPT_S
        for name, samples in list(self._samples.items()):
            while len(samples) > 1 and (samples[1][0] or 0) <= oldest:
                samples.popleft()  # the newest one before the hour says how it began
            if f"r {name}" not in rows and (samples[-1][0] or 0) < oldest:
                del self._samples[name]
        while self._events and self._events[0].at < oldest:
            self._events.popleft()


def events_json(events: Iterable[NodeHappening]) -> list[Json]:
    return [each.to_json() for each in events]
