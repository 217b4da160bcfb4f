"""A clock that a test moves."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta
from typing import Final

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """Time stands still until `advance`; sleepers wake in order of their moment."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        self._set_by = timedelta()
        self._serial = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []

    def now(self) -> datetime:
        return _START + timedelta(seconds=self._elapsed) + self._set_by

    def set_by(self, seconds: float) -> None:
        """Set the clock on, or back with a negative number, as an administrator may: no time passes."""
        self._set_by += timedelta(seconds=seconds)

    def monotonic(self) -> float:
        return self._elapsed

    @property
    def sleepers(self) -> int:
        """Number of sleepers, including those that gave up waiting."""
        return len(self._sleepers)

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._serial), woken))
        self.advance(0)
        await woken.wait()

    def advance(self, seconds: float) -> None:
        """Let time pass; sleepers whose time has come wake when the loop runs next."""
        self._elapsed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed:
            heapq.heappop(self._sleepers)[2].set()
