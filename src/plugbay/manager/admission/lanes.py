"""Turns by key: one user of a key at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager


class Lanes:
    """First come, first served, one at a time for each key; unused keys cost nothing.

    Lanes do not guard data: state changes are synchronous. They keep a plugin's calls one after the other, as a
    kubelet does, while other plugins' calls go on.
    """

    def __init__(self) -> None:
        self._turns: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def enter(self, key: str) -> AsyncIterator[None]:
        turn = self._turns.setdefault(key, asyncio.Lock())
        self._users[key] = self._users.get(key, 0) + 1
        try:
            async with turn:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._turns[key]

    def enter_all(self, keys: Iterable[str]) -> AbstractAsyncContextManager[None]:
        """Enter all lanes, always in the order of the keys, so that no two callers wait for each other."""
        match sorted(set(keys)):
            case [key]:
                return self.enter(key)
            case ordered:
                return self._enter_in_order(ordered)

    @asynccontextmanager
    async def _enter_in_order(self, keys: Sequence[str]) -> AsyncIterator[None]:
        async with AsyncExitStack() as entered:
            for key in keys:
                await entered.enter_async_context(self.enter(key))
            yield
