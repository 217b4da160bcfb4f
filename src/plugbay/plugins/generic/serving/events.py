"""The events after which the machine may match other rules: names in directories, and the kernel's uevents."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self

from plugbay.kernel.uevent import Uevent, Uevents, UeventsLost, open_uevents
from plugbay.ops.tasks import background, first
from plugbay.sdk.watching import PathChanges, Watches
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

POLL_S: Final = 5.0
"""The interval between looks where the kernel does not tell of changes."""
_MOST_WAITING: Final = 1000
"""With more uevents at a time it is quicker to look at everything."""


@dataclass(frozen=True, slots=True)
class MachineNews:
    """The events since they were taken last.

    Attributes:
        directories: in which names may have come or gone.
        uevents: in their order.
        is_partial: whether others were lost, so that anything may have happened.
    """

    directories: frozenset[Path] = frozenset()
    uevents: tuple[Uevent, ...] = ()
    is_partial: bool = False

    def __bool__(self) -> bool:
        return bool(self.directories or self.uevents or self.is_partial)


class MachineEvents:
    """Gathers events until they are taken; used through `following`.

    Attributes:
        counts: of events so far, by ``path`` and ``uevent``.
        is_blind: whether uevents do not reach this process.
    """

    def __init__(self, watches: Watches, happened: asyncio.Event) -> None:
        self.counts = Counter({"path": 0, "uevent": 0})
        self.is_blind = False
        self._heeds_uevents = asyncio.Event()
        self._kernel: Uevents | None = None
        self._watches = watches
        self._happened = happened
        self._watched: frozenset[Path] = frozenset()
        self._watching = contextlib.ExitStack()
        self._changes: PathChanges | None = None
        self._anew = asyncio.Event()
        self._directories: set[Path] = set()
        self._uevents: list[Uevent] = []
        self._is_partial = False

    @classmethod
    @asynccontextmanager
    async def following(cls, watches: Watches, happened: asyncio.Event) -> AsyncIterator[Self]:
        """Follow the events until the block ends; ``happened`` is set when there are some."""
        events = cls(watches, happened)
        async with contextlib.AsyncExitStack() as up:
            up.callback(lambda: events._watching.close())  # each `watch` has its own
            try:
                uevents = await up.enter_async_context(open_uevents())
            except OSError as error:
                events.is_blind = True
                logger.warning("cannot receive uevents, looking at devices every %g s instead: %s", POLL_S, error)
            else:
                events._kernel = uevents
                await up.enter_async_context(background(events._follow_uevents(uevents), name="uevents"))
            await up.enter_async_context(background(events._follow_directories(), name="directories of patterns"))
            yield events

    def take(self) -> MachineNews:
        """The events since the last call."""
        if self._kernel is not None and not self._heeds_uevents.is_set():
            for event in self._kernel.take_waiting():
                self._note(event)
        news = MachineNews(frozenset(self._directories), tuple(self._uevents), self._is_partial)
        self._directories.clear()
        self._uevents.clear()
        self._is_partial = False
        return news

    def heed_uevents(self, *, is_wanted: bool) -> None:
        """Say whether uevents make ``happened`` be set; else they wait in the kernel until `take`, and cost nothing."""
        if is_wanted:
            self._heeds_uevents.set()
        else:
            self._heeds_uevents.clear()

    def watch(self, directories: Iterable[Path]) -> bool:
        """Watch these from now on; returns whether some of them are new, so that another look is due."""
        wanted = frozenset(directories)
        if wanted == self._watched:
            return False
        more = wanted - self._watched
        self._directories |= more  # a name may have come before they were watched
        before, self._watching = self._watching, contextlib.ExitStack()
        self._changes = self._watching.enter_context(self._watches.watch(wanted))
        before.close()
        self._watched = wanted
        self._anew.set()
        return bool(more)

    async def _follow_directories(self) -> None:
        while True:
            self._anew.clear()
            if self._changes is None:
                await self._anew.wait()
            else:
                await first(self._take_paths(self._changes), self._anew.wait())

    async def _take_paths(self, changes: PathChanges) -> None:
        changed = await anext(changes)
        self.counts["path"] += 1
        self._directories |= changed
        self._happened.set()

    async def _follow_uevents(self, uevents: Uevents) -> None:
        while True:
            await self._heeds_uevents.wait()
            self._note(await anext(uevents))
            self._happened.set()

    def _note(self, event: Uevent | UeventsLost) -> None:
        self.counts["uevent"] += 1
        if isinstance(event, Uevent) and len(self._uevents) < _MOST_WAITING:
            self._uevents.append(event)
        else:
            self._is_partial = True
