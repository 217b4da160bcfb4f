"""``kubelet_internal_checkpoint``, kept as a view of the manager's state for programs that read a kubelet's.

It follows the state with a delay and is never read back while the manager runs: the store is the record. At start the
two are compared, see `foreign`; for that the store knows the checksums of all files that may be ours.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from plugbay.errors import StoreUnusable
from plugbay.kernel.files import write_durably
from plugbay.manager.checkpoint.rendering import Holdings, Renderer
from plugbay.manager.state import ManagerState
from plugbay.manager.store.commits import SaveViewChecksums
from plugbay.manager.store.store import Store
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import first

logger = logging.getLogger(__name__)

DEBOUNCE_S: Final = 0.02
"""Delay from a change to its view: one change is usually followed by more."""
RETRY_S: Final = 1.0
_REST_FACTOR: Final = 10
_MAX_REST_S: Final = 1.0


class CheckpointView:
    """The file and its one writer. Made by `open_view`."""

    def __init__(
        self,
        path: Path,
        *,
        store: Store,
        clock: Clock,
        holdings: Callable[[], Holdings],
        known: Iterable[int],
    ) -> None:
        self._path = path
        self._store = store
        self._clock = clock
        self._holdings = holdings
        self._renderer = Renderer()
        self._possible = frozenset(known)
        self._is_started = False
        self._is_failing = False
        self._is_urgent = asyncio.Event()
        # One thread, so that an earlier view never overwrites a later one.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="plugbay-view")

    def start(self, changes: AsyncIterable[None], tasks: asyncio.TaskGroup) -> asyncio.Task[None]:
        """Write the view now and after each change or burst of changes, until the task is cancelled.

        A write costs about 3 ms at 1,000 pods; writes are so far apart that all of them take a tenth of the time.
        """
        self._is_started = True
        return tasks.create_task(self._follow(changes), name="checkpoint view")

    def hurry(self) -> None:
        """Write the next view without a delay: a plugin that repeats its list is waiting for the checkpoint."""
        self._is_urgent.set()

    async def write(self) -> bool:
        """Write the present state; return whether that succeeded. Only the first of several failures is logged."""
        loop = asyncio.get_running_loop()
        try:
            rendered = await loop.run_in_executor(self._thread, self._renderer.render, self._holdings())
            # First, so that no crash leaves a file of ours that looks like another program's.
            self._possible |= {rendered.checksum}
            await self._store.commit([SaveViewChecksums(self._possible)])
            await loop.run_in_executor(self._thread, _write, self._path, rendered.content)
        except (OSError, StoreUnusable) as error:
            if not self._is_failing:
                logger.warning(
                    "cannot write %s; programs that read it see an earlier state until it can be written: %s",
                    self._path,
                    error,
                )
            self._is_failing = True
            return False
        if self._is_failing:
            logger.info("%s is written again", self._path)
        self._is_failing = False
        self._possible = frozenset({rendered.checksum})
        logger.debug("effect: after view")
        return True

    async def close(self) -> None:
        """Write the last state, if the view was started, and let the thread end."""
        try:
            if self._is_started:
                await self.write()
        finally:
            await asyncio.to_thread(self._thread.shutdown)

    async def _follow(self, changes: AsyncIterable[None]) -> None:
        async for _ in changes:
            await self._rest(DEBOUNCE_S)
            self._is_urgent.clear()
            started = self._clock.monotonic()
            while not await self.write():
                await self._clock.sleep(RETRY_S)
            took_s = self._clock.monotonic() - started
            await self._rest(min(_REST_FACTOR * took_s, _MAX_REST_S))

    async def _rest(self, seconds: float) -> None:
        """Wait until ``seconds`` have passed, or `hurry` is called."""
        await first(self._clock.sleep(seconds), self._is_urgent.wait())


@asynccontextmanager
async def open_view(
    path: Path, *, store: Store, clock: Clock, holdings: Callable[[], Holdings], known: Iterable[int]
) -> AsyncIterator[CheckpointView]:
    """Keep the view at ``path``; it is written for the last time when the block ends.

    Args:
        holdings: gives what to write; called in the event loop.
        known: the checksums that our file at ``path`` may have now.
    """
    view = CheckpointView(path, store=store, clock=clock, holdings=holdings, known=known)
    try:
        yield view
    finally:
        await view.close()


def holdings_of(state: ManagerState) -> Holdings:
    """The contents of a checkpoint of ``state``; a resource is registered from its first list until it expires."""
    return Holdings(
        [*state.assignments(), *(assignment for granted in state.granted for assignment in granted)],
        {name: resource.table for name, resource in state.resources.items() if resource.table is not None},
    )


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_durably(path, content)
