"""Why to look at the hardware again: many reasons that come close together make one look."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

QUIET_S: Final = 0.01
"""A look waits for so long a silence: hardware that comes or goes does so in several steps."""
LATEST_S: Final = 0.2
"""A look never waits longer than this, however much goes on."""
_TOLD: Final = 3


class Reasons:
    """Reasons that are collected between two looks, on the event loop that waits."""

    def __init__(self) -> None:
        self._given: dict[str, None] = {}
        self._news = asyncio.Event()

    def add(self, why: str) -> None:
        self._given[why] = None
        self._news.set()

    async def wait(self) -> None:
        """Wait until there is one."""
        await self._news.wait()

    async def settle(self) -> None:
        """Wait until nothing was added for a moment, but not for ever."""
        latest = asyncio.get_running_loop().time() + LATEST_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(latest):
                while await self._comes_within(QUIET_S):
                    pass

    def take(self) -> str:
        """Take all reasons as one text; what is added from now on is for the next look."""
        given = list(self._given)
        self._given.clear()
        self._news.clear()
        more = f" and {len(given) - _TOLD} more" if len(given) > _TOLD else ""
        return ", ".join(given[:_TOLD]) + more

    async def _comes_within(self, quiet_s: float) -> bool:
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(quiet_s):
                await self._news.wait()
        return self._news.is_set()
