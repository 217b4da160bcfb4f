"""Calls for the same devices, one after the other: a hook whose call was given up may still be at work on them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from plugbay.model.ids import DeviceId

START_PATIENCE_S: Final = 20.0
"""A kubelet waits 30 s for PreStartContainer; so it learns why, and not only that it took too long."""


class Turns:
    """The turns of one kind of call."""

    def __init__(self) -> None:
        self._running: dict[DeviceId, asyncio.Event] = {}  # set when the call is over

    async def until_free(self, units: Collection[DeviceId], *, patience_s: float | None = None) -> None:
        """Return when no call for one of ``units`` runs.

        Raises:
            TimeoutError: one still does after ``patience_s``.
        """
        if self._running.keys().isdisjoint(units):  # without a timer: it costs as much as a line written
            return
        async with asyncio.timeout(patience_s):
            while running := [self._running[unit] for unit in units if unit in self._running]:
                await running[0].wait()

    @contextmanager
    def taking(self, units: Collection[DeviceId]) -> Iterator[None]:
        """A call for ``units`` runs in the block; `until_free` was awaited for them just now."""
        is_over = asyncio.Event()
        self._running.update(dict.fromkeys(units, is_over))
        try:
            yield
        finally:
            for unit in dict.fromkeys(units):
                del self._running[unit]
            is_over.set()
