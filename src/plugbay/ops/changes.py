"""Telling readers that something changed, without saying what and without a queue for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator


class Changes:
    """A counter that can be awaited: readers see that it moved, and several moves between two looks count once."""

    def __init__(self) -> None:
        self._version = 0
        self._moved = asyncio.Event()

    def notify(self) -> None:
        self._version += 1
        self._moved.set()
        self._moved = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[None]:
        """One item at once, then one after each change or burst of changes."""
        seen = -1
        while True:
            if seen == self._version:
                await self._moved.wait()
            seen = self._version
            yield
