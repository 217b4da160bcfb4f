"""Changes to the store about plugins, kept until they are written: a full disk must not lose them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from plugbay.errors import StoreUnusable
from plugbay.manager.store.commits import Change
from plugbay.manager.store.store import RETRY_S, Store
from plugbay.ops.clock import Clock

logger = logging.getLogger(__name__)


class UnsavedChanges:
    """Writes changes to the store; those that could not be written are tried again at intervals until they are.

    Of several changes about the same subject only the last one is written.

    Args:
        spawn: starts a task that the caller cancels when it ends.
    """

    def __init__(self, store: Store, *, clock: Clock, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._store = store
        self._clock = clock
        self._spawn = spawn
        self._unsaved: dict[str, Change] = {}
        self._turn = asyncio.Lock()
        self._is_trying_again = False

    def put(self, subject: str, change: Change) -> None:
        """Keep ``change`` to be written by `save`."""
        self._unsaved[subject] = change

    async def save(self, subject: str) -> None:
        """Return when the last change about ``subject`` is written, or after the first failure."""
        if subject in self._unsaved and not await self._write() and not self._is_trying_again:
            self._is_trying_again = True
            self._spawn(self._try_again())

    async def _try_again(self) -> None:
        try:
            await self._clock.sleep(RETRY_S)
            while not await self._write():
                await self._clock.sleep(RETRY_S)
        finally:
            self._is_trying_again = False

    async def _write(self) -> bool:
        async with self._turn:  # a change that is being written is not known to be written yet
            written = dict(self._unsaved)
            if not written:
                return True
            try:
                await self._store.commit([*written.values()])
            except StoreUnusable as error:
                logger.error(
                    "cannot write to the store and tries again, and until then a restart does not know of %s; check "
                    "the disk: %s",
                    ", ".join(map(str, written.values())),
                    error,
                )
                return False
            for subject, change in written.items():
                if self._unsaved[subject] is change:
                    del self._unsaved[subject]
            return True
