"""The queue of a loop that looks after objects: each key once, now or at a moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Iterator
from typing import Final, Generic, TypeVar

from plugbay.ops.backoff import Delays
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import first

Key = TypeVar("Key", bound=Hashable)

RETRIES: Final = Delays(1.0, 300.0)
"""The waits before a step that failed is tried again."""


class WorkQueue(Generic[Key]):
    """Keys that are due, in the order in which they came, and keys that will be due: one timer waits for the next."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[Key, None] = {}
        self._later: dict[Key, float] = {}
        self._filled = asyncio.Event()

    def put(self, key: Key) -> None:
        """Have ``key`` looked at as soon as possible; twice before that is once."""
        self._due[key] = None
        self._filled.set()

    def __iter__(self) -> Iterator[Key]:
        """The keys that are due."""
        return iter(tuple(self._due))

    def put_later(self, key: Key, seconds: float | None) -> None:
        """Have ``key`` looked at after ``seconds`` and not at the moment that was said before; None for never."""
        self._later.pop(key, None)
        if seconds is not None:
            self._later[key] = self._clock.monotonic() + seconds
            self._filled.set()  # the timer may have to be set anew

    async def __aiter__(self) -> AsyncIterator[Key]:
        while True:
            now = self._clock.monotonic()
            for key in [key for key, moment in self._later.items() if moment <= now]:
                del self._later[key]
                self._due[key] = None
            if self._due:
                key = next(iter(self._due))
                del self._due[key]
                yield key
                continue
            self._filled.clear()
            await self._until_due(now)

    async def _until_due(self, now: float) -> None:
        next_moment = min(self._later.values(), default=None)
        if next_moment is None:
            await self._filled.wait()
        else:
            await first(self._filled.wait(), self._clock.sleep(next_moment - now))
