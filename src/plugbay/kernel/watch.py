"""Watch paths, whether they exist or not, and tell when something about one may have changed."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from plugbay.kernel.contents import Contents, has_nodes, stamps_in
from plugbay.kernel.inotify import Inotify, InotifyEvent, Mask
from plugbay.kernel.trail import Found, Interest, follow, interests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Set
    from types import TracebackType

    from plugbay.kernel.trail import Trail

SETTLE_S: Final = 0.005
"""A command such as ``cp -r`` makes its entries well within this time of each other."""

POLL_INTERVAL_S: Final = 1.0

_log = logging.getLogger(__name__)

_VANISHED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_MAX_ATTEMPTS: Final = 20
"""A program that renames in a tight loop must not hold up the event loop; we look again a poll interval later."""


@asynccontextmanager
async def watch_paths(
    paths: Iterable[Path], *, settle_s: float = SETTLE_S, poll_interval_s: float = POLL_INTERVAL_S
) -> AsyncIterator[PathWatch]:
    """Watch paths: look at them after entering, then iterate, and no change can be missed.

    Args:
        paths: relative paths start at the current working directory.
        settle_s: least time between two notifications. The first after a quiet time comes at once.
        poll_interval_s: how often to look where the kernel reports nothing.
    """
    async with PathWatch(paths, settle_s=settle_s, poll_interval_s=poll_interval_s) as changes:
        yield changes


@dataclass(slots=True)
class _Watched:
    """One path and what we watch for it.

    Attributes:
        path: the path as it was given and is reported.
        target: what it resolved to when we looked last.
        blind: why the kernel cannot tell us everything about it; then ``signature`` is compared now and then.
    """

    path: Path
    absolute: str
    target: str = ""
    wds: dict[int, Interest] = field(default_factory=dict)
    blind: str = ""
    signature: object = None
    contents: Contents = field(default_factory=Contents)

    def concerns(self, event: InotifyEvent) -> bool:
        if event.mask & Mask.Q_OVERFLOW:
            return True
        interest = self.wds.get(event.wd)
        if interest is None:
            return False
        if event.name and event.mask & Mask.CLOSE_WRITE:
            return interest.contents and self.contents.is_changed(self.target, event.name)
        return not event.name or interest.contents or event.name in interest.names


class PathWatch:
    """An endless iterator of the sets of paths that may have changed, for one consumer; open in ``async with``.

    Reported: the path appears, disappears or becomes another file, at whatever depth the change was made, also by
    a symbolic link on the way; an entry of a directory appears or disappears; the content of a regular file, be it the
    path or right in the directory that the path is, is written and closed, or its attributes change. What is in
    directories below is not looked at. Directories with device nodes are not watched for what is written: every user of
    ``/dev/null`` writes. More may be reported than has changed. Cancelling a wait loses nothing.
    """

    def __init__(self, paths: Iterable[Path], *, settle_s: float, poll_interval_s: float) -> None:
        self._watched = [_Watched(path, os.path.abspath(path)) for path in dict.fromkeys(paths)]
        self._settle_s = settle_s
        self._poll_interval_s = poll_interval_s
        self._inotify: Inotify | None = None
        self._changed: set[Path] = set()
        self._next_report = 0.0
        self._next_poll = 0.0
        self._warned = False
        self._problem = ""  # the reason why inotify is not available

    async def __aenter__(self) -> Self:
        inotify = Inotify()
        try:
            self._inotify = await inotify.__aenter__()
        except OSError as error:
            self._problem = str(error)
        for watched in self._watched:
            watched.blind = self._problem
            self._look(watched)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inotify is not None:
            self._inotify.close()

    def add(self, path: Path) -> None:
        """Watch ``path`` too; a path that is watched already is not watched twice.

        A consumer that waits just now has to begin waiting anew: where the kernel cannot tell, it waits too long.
        """
        if all(watched.path != path for watched in self._watched):
            watched = _Watched(path, os.path.abspath(path), blind="" if self._inotify is not None else self._problem)
            self._watched.append(watched)
            self._look(watched)

    def discard(self, path: Path) -> None:
        """Stop watching ``path``; changes that were not reported yet never will be."""
        gone = [watched for watched in self._watched if watched.path == path]
        self._watched = [watched for watched in self._watched if watched.path != path]
        self._changed.discard(path)
        self._forget({wd for watched in gone for wd in watched.wds})

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> frozenset[Path]:
        loop = asyncio.get_running_loop()
        while not self._changed:
            self._absorb(await self._wait())
            self._poll(loop.time())
        if (wait_s := self._next_report - loop.time()) > 0:
            await asyncio.sleep(wait_s)
            if self._inotify is not None:
                self._absorb(self._inotify.receive_nowait())
        changed = frozenset(self._changed)
        self._changed.clear()
        self._next_report = loop.time() + self._settle_s
        return changed

    async def _wait(self) -> list[InotifyEvent]:
        if self._inotify is None:
            await asyncio.sleep(self._poll_interval_s)
            return []
        blind = any(watched.blind for watched in self._watched)
        try:
            async with asyncio.timeout_at(self._next_poll if blind else None):
                events = await self._inotify.receive()
        except TimeoutError:
            return []
        if not events:
            raise StopAsyncIteration  # closed
        return events

    def _absorb(self, events: list[InotifyEvent]) -> None:
        for watched in self._watched:
            if any(watched.concerns(event) for event in events):
                self._changed.add(watched.path)
                self._look(watched)

    def _poll(self, now: float) -> None:
        if now < self._next_poll:
            return
        self._next_poll = now + self._poll_interval_s
        for watched in self._watched:
            if watched.blind:
                before = watched.signature
                self._look(watched)
                if watched.signature != before:
                    self._changed.add(watched.path)

    def _look(self, watched: _Watched) -> None:
        """Watch what ``watched`` resolves to now."""
        was_blind = watched.blind
        if self._inotify is not None:
            before = watched.wds.keys()
            watched.wds, watched.blind, watched.target = _watch(self._inotify, watched.absolute)
            self._forget(before - watched.wds.keys())
        if watched.blind or was_blind:
            watched.signature = _signature(watched.absolute)
        if watched.blind:
            self._warn(watched)

    def _forget(self, wds: Set[int]) -> None:
        """Remove the watches that are not needed any more."""
        if wds and self._inotify is not None:
            for wd in wds - {wd for watched in self._watched for wd in watched.wds}:
                self._inotify.remove(wd)

    def _warn(self, watched: _Watched) -> None:
        if self._warned:
            return
        self._warned = True
        _log.warning(
            "cannot watch %s: %s; looking every %s s instead", watched.path, watched.blind, self._poll_interval_s
        )


def _watch(inotify: Inotify, path: str) -> tuple[dict[int, Interest], str, str]:
    """Add watches until the path resolves as they assume; returns the reason if that failed, and the target."""
    wds: dict[int, Interest] | None = None
    for _ in range(_MAX_ATTEMPTS):
        trail = follow(path)
        wds, problem = _add(inotify, trail)
        if wds is not None and follow(path) == trail:
            return wds, problem, trail.target
    return wds or {}, "it changes faster than it can be watched", path


def _add(inotify: Inotify, trail: Trail) -> tuple[dict[int, Interest] | None, str]:
    """The watches a trail needs and what the kernel refused; no watches when the trail is out of date already."""
    problem = "permission denied" if trail.found is Found.HIDDEN else ""
    wds: dict[int, Interest] = {}
    rewrites = trail.found is Found.DIRECTORY and not has_nodes(trail.target)
    for path, interest in interests(trail, rewrites=rewrites).items():
        try:
            # The same inode may serve several paths: add to its mask, never replace it.
            wd = inotify.add(path, interest.mask | Mask.DONT_FOLLOW | Mask.MASK_ADD)
        except OSError as error:
            if error.errno in _VANISHED:
                return None, ""
            problem = f"{error.strerror} ({path})"
            continue
        known = wds.setdefault(wd, Interest())
        known.watch(interest.mask, *interest.names)
        known.contents |= interest.contents
    return wds, problem


def _signature(path: str) -> object:
    trail = follow(path)
    if trail.found in (Found.MISSING, Found.HIDDEN):
        return trail
    try:
        now = os.lstat(trail.target)
        # The time stamps of a directory are too coarse to tell two quick changes apart.
        names = stamps_in(trail.target) if trail.found is Found.DIRECTORY else None
    except OSError as error:
        return trail, error.errno
    return trail, names, now.st_dev, now.st_ino, now.st_mode, now.st_size, now.st_mtime_ns, now.st_ctime_ns
