"""A clock that runs faster than the machine's."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta


class FastClock:
    """Every second of the machine is ``speed`` seconds here; a `plugbay.ops.clock.Clock`."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self._started = datetime.now(UTC), time.monotonic()

    def now(self) -> datetime:
        moment, since = self._started
        return moment + timedelta(seconds=(time.monotonic() - since) * self.speed)

    def monotonic(self) -> float:
        return time.monotonic() * self.speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.speed)
