"""Taking turns, by key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class Lanes:
    """First come, first served, one at a time for each key; keys nobody uses cost nothing.

    It guards no data: state changes are synchronous. It keeps a plugin's calls one after the other, as a kubelet
    does, while other plugins' go on.
    """

    def __init__(self) -> None:
        self._turns: dict[Hashable, asyncio.Lock] = {}
        self._users: dict[Hashable, int] = {}

    @asynccontextmanager
    async def enter(self, key: Hashable) -> AsyncIterator[None]:
        turn = self._turns.setdefault(key, asyncio.Lock())
        self._users[key] = self._users.get(key, 0) + 1
        try:
            async with turn:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._turns[key]
