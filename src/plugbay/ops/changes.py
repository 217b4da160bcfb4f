"""Telling readers that something changed.

`Changes` tells any number of readers that it did, without saying what; an `Inbox` keeps what one reader has not seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class Changes:
    """A counter that can be awaited: readers see that it moved, and several moves between two looks count once."""

    def __init__(self) -> None:
        self._version = 0
        self._moved = asyncio.Event()

    def notify(self) -> None:
        self._version += 1
        self._moved.set()
        self._moved = asyncio.Event()

    @property
    def version(self) -> int:
        """A number that grows with each change."""
        return self._version

    async def after(self, seen: int) -> int:
        """The version, once it is another than ``seen``. A cancelled wait loses nothing."""
        if seen == self._version:
            await self._moved.wait()
        return self._version

    async def __aiter__(self) -> AsyncIterator[None]:
        """One item at once, then one after each change or burst of changes."""
        seen = -1
        while True:
            seen = await self.after(seen)
            yield

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once ``holds``, which is asked at once and after each change, says so."""
        while not holds():
            await self._moved.wait()


class Inbox(Generic[Item]):
    """The items that one reader has not seen yet, each once, in the order in which they came.

    Args:
        most: the number of items that are kept; beyond that the oldest are forgotten.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._unseen: dict[Item, None] = {}
        self._filled = asyncio.Event()

    def put(self, items: Iterable[Item]) -> None:
        self._unseen.update(dict.fromkeys(items))
        while self._most is not None and len(self._unseen) > self._most:
            del self._unseen[next(iter(self._unseen))]
        if self._unseen:
            self._filled.set()

    async def take(self) -> tuple[Item, ...]:
        """Wait until there are unseen items and return all of them. A cancelled wait loses nothing."""
        await self._filled.wait()
        self._filled.clear()
        items = tuple(self._unseen)
        self._unseen.clear()
        return items

    async def __aiter__(self) -> AsyncIterator[tuple[Item, ...]]:
        while True:
            yield await self.take()
