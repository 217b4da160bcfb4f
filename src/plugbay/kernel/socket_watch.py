"""The unix sockets below a directory, as they come and go."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import os
import stat
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from plugbay.kernel.inotify import Inotify, InotifyEvent, Mask, close_later
from plugbay.values import dataclass

POLL_INTERVAL_S: Final = 1.0

_log = logging.getLogger(__name__)

_APPEARED: Final = Mask.CREATE | Mask.MOVED_TO
_VANISHED: Final = Mask.DELETE | Mask.MOVED_FROM
_ENDED: Final = Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.IGNORED
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_EXHAUSTED: Final = frozenset({errno.ENOSPC, errno.ENOMEM})


@asynccontextmanager
async def watch_sockets(directory: Path, *, poll_interval_s: float = POLL_INTERVAL_S) -> AsyncIterator[SocketWatch]:
    """Watch ``directory`` and everything below it; the sockets that exist already are found too.

    Args:
        poll_interval_s: how often to look when the kernel cannot tell because a limit is reached.
    """
    async with SocketWatch(directory, poll_interval_s=poll_interval_s) as watch:
        yield watch


@dataclass(frozen=True, slots=True)
class _Found:
    """A socket: its number here, and its identity for the kernel."""

    incarnation: int
    inode: tuple[int, int]
    changed_ns: int


class SocketWatch:
    """An iterator of the sets of socket paths that appeared, vanished or were made again, for one consumer.

    Names that begin with a dot are ignored, as files and as directories. A symbolic link to a socket counts as one; a
    linked directory is not entered. The iteration ends when the directory itself is removed or renamed. Cancelling a
    wait loses nothing.
    """

    def __init__(self, directory: Path, *, poll_interval_s: float) -> None:
        self._directory = directory
        self._poll_interval_s = poll_interval_s
        self._inotify: Inotify | None = None
        self._blind = ""  # the reason why the kernel cannot report everything
        self._warned = False
        self._ended = False
        self._directories: dict[int, Path] = {}
        self._found: dict[Path, _Found] = {}
        self._changed: set[Path] = set()
        self._serial = itertools.count(1)

    @property
    def sockets(self) -> Mapping[Path, int]:
        """The present sockets, each with a number that no earlier socket had, at this path or another."""
        return {path: found.incarnation for path, found in self._found.items()}

    async def __aenter__(self) -> Self:
        inotify = Inotify()
        try:
            self._inotify = await inotify.__aenter__()
        except OSError as error:
            self._go_blind(str(error))
        self._rescan()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inotify is not None:
            self._inotify.close(release=close_later)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> frozenset[Path]:
        while not self._changed:
            if self._ended:
                raise StopAsyncIteration
            await self._look()
        changed = frozenset(self._changed)
        self._changed.clear()
        return changed

    async def _look(self) -> None:
        """Wait for events of the kernel, or for the time to look ourselves, and apply them."""
        if self._inotify is None:
            await asyncio.sleep(self._poll_interval_s)
            return self._rescan()
        try:
            async with asyncio.timeout(self._poll_interval_s if self._blind else None):
                events = await self._inotify.receive()
        except TimeoutError:
            return self._rescan()
        self._ended = not events  # closed
        if any(event.mask & Mask.Q_OVERFLOW for event in events):
            return self._rescan()
        for event in events:
            self._take(event)

    # --- one event --------------------------------------------------------------------------------------------------

    def _take(self, event: InotifyEvent) -> None:
        directory = self._directories.get(event.wd)
        if directory is None:
            return  # of a directory that is no longer there
        if not event.name:
            if event.mask & _ENDED:
                self._forget_below(directory)
                self._ended = directory == self._directory
            return
        if event.name.startswith("."):
            return
        path = directory / event.name
        if event.mask & _VANISHED:
            self._forget_below(path)
        elif event.mask & Mask.ISDIR:
            for below, status in self._walk(path):
                self._meet(below, status)
        elif (found := _socket_status(path)) is not None:
            self._meet(path, found)

    def _meet(self, path: Path, status: os.stat_result) -> None:
        """A socket appeared at ``path``. If a scan saw it before its event was read, it is the same inode."""
        known = self._found.get(path)
        if known is None or known.inode != _inode(status):
            self._add(path, status)

    def _forget_below(self, path: Path) -> None:
        for wd, directory in list(self._directories.items()):
            if directory.is_relative_to(path):
                del self._directories[wd]
                if self._inotify is not None:
                    self._inotify.remove(wd)
        for socket in [socket for socket in self._found if socket.is_relative_to(path)]:
            self._drop(socket)

    # --- scanning ---------------------------------------------------------------------------------------------------

    def _rescan(self) -> None:
        """Look at everything again, when events may have been missed."""
        if self._inotify is not None:
            self._blind = ""
        before, self._directories = self._directories, {}
        there = dict(self._walk(self._directory))
        if self._inotify is not None:
            for wd in before.keys() - self._directories.keys():
                self._inotify.remove(wd)
        self._ended = not self._directory.is_dir()
        for path in self._found.keys() - there.keys():
            self._drop(path)
        for path, status in there.items():
            known = self._found.get(path)
            # An inode number is used again soon; the time tells a socket made again from one that stayed.
            if known is None or (known.inode, known.changed_ns) != (_inode(status), status.st_ctime_ns):
                self._add(path, status)

    def _walk(self, directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
        """The sockets in and below ``directory``, which is watched before it is read, so that none is missed."""
        self._watch(directory)
        try:
            names = sorted(os.listdir(directory))
        except OSError as error:
            if error.errno not in _GONE:
                _log.warning("cannot look for sockets in %s, so none there is found: %s", directory, error.strerror)
            return
        for name in names:
            if name.startswith("."):
                continue
            path = directory / name
            if path.is_dir() and not path.is_symlink():
                yield from self._walk(path)
            elif (status := _socket_status(path)) is not None:
                yield path, status

    def _watch(self, directory: Path) -> None:
        if self._inotify is None:
            return
        mask = _APPEARED | _VANISHED | Mask.ONLYDIR
        mask |= Mask.DELETE_SELF | Mask.MOVE_SELF if directory == self._directory else Mask.DONT_FOLLOW
        try:
            self._directories[self._inotify.add(directory, mask)] = directory
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._go_blind(f"{error.strerror} ({directory})")
            elif error.errno not in _GONE:
                _log.warning("cannot watch %s, so new sockets there are not noticed: %s", directory, error.strerror)

    def _go_blind(self, problem: str) -> None:
        self._blind = problem
        if not self._warned:
            self._warned = True
            _log.warning(
                "cannot watch %s: %s; looking every %s s instead", self._directory, problem, self._poll_interval_s
            )

    # --- bookkeeping ------------------------------------------------------------------------------------------------

    def _add(self, path: Path, status: os.stat_result) -> None:
        self._found[path] = _Found(next(self._serial), _inode(status), status.st_ctime_ns)
        self._changed.add(path)

    def _drop(self, path: Path) -> None:
        if self._found.pop(path, None) is not None:
            self._changed.add(path)


def _socket_status(path: Path) -> os.stat_result | None:
    """The socket at ``path`` as the kernel describes it, links followed; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status if stat.S_ISSOCK(status.st_mode) else None


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
