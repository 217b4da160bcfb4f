"""One watch of the file system for all plugins of a process.

The kernel gives a user 128 inotify instances by default, shared with every other program of that user; a process that
took two for each resource would have used up most of them with 50 resources.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NoReturn, Self

from plugbay.kernel.filesystems import silent_filesystem
from plugbay.kernel.watch import PathWatch, watch_paths
from plugbay.ops.changes import Inbox
from plugbay.ops.tasks import first

logger = logging.getLogger(__name__)


class PathChanges:
    """The paths of one `Watches.watch` that may have changed, without end; cancelling a wait loses nothing."""

    def __init__(self, paths: frozenset[Path]) -> None:
        self._paths = paths
        self._unseen = Inbox[Path]()

    def tell(self, changed: frozenset[Path]) -> None:
        self._unseen.put(changed & self._paths)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> frozenset[Path]:
        return frozenset(await self._unseen.take())


class Watches:
    """Used through `watching`."""

    def __init__(self, kernel: PathWatch) -> None:
        self._kernel = kernel
        self._readers: set[PathChanges] = set()
        self._wanted: Counter[Path] = Counter()
        self._added = asyncio.Event()

    @contextmanager
    def watch(self, paths: Iterable[Path]) -> Iterator[PathChanges]:
        """Watch from here on; look at the paths after entering, then iterate, and no change can be missed."""
        wanted = frozenset(paths)
        changes = PathChanges(wanted)
        self._readers.add(changes)
        self._wanted.update(wanted)
        for path in wanted:
            self._kernel.add(path)
        self._added.set()
        try:
            yield changes
        finally:
            self._readers.discard(changes)
            self._wanted.subtract(wanted)
            for path in wanted:
                if not self._wanted[path]:
                    del self._wanted[path]
                    self._kernel.discard(path)

    async def run(self) -> NoReturn:
        """Pass on what the kernel tells, until cancelled."""
        while True:
            self._added.clear()
            await first(self._pass_on(), self._added.wait())

    async def _pass_on(self) -> None:
        async for changed in self._kernel:
            for reader in self._readers:
                reader.tell(changed)


async def warn_of_silence(name: str, paths: Iterable[Path], *, remedy: str) -> None:
    """Log which of ``paths`` are on file systems that do not tell of changes.

    Args:
        name: the resource that watches them, for the log.
        remedy: the setting to use instead.
    """
    for path in paths:
        if kind := await asyncio.to_thread(silent_filesystem, path):
            logger.warning(
                "%s: watch of %s: a file system of type %s does not report changes; %s", name, path, kind, remedy
            )


@asynccontextmanager
async def watching() -> AsyncIterator[Watches]:
    """The watches that all plugins of a process share."""
    async with watch_paths([]) as kernel, asyncio.TaskGroup() as tasks:
        watches = Watches(kernel)
        running = tasks.create_task(watches.run(), name="watch files")
        try:
            yield watches
        finally:
            running.cancel()
