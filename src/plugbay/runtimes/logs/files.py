"""Logs in several files, of which the newest is written: how large they get, and reading them as one."""

from __future__ import annotations

import asyncio
import os
import re
from bisect import bisect_right
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.kernel.inotify import Inotify, Mask
from plugbay.values import dataclass

_CHUNK_BYTES: Final = 64 * 1024
_ROTATED: Final = re.compile(r"\d+(?:-\d+)?", re.ASCII)
"""The end of the name of an older log file: a number, or a time as a kubelet writes it."""


@dataclass(frozen=True, slots=True)
class LogLimits:
    """The limits for the logs of one container: ``max_bytes`` for each of ``max_files`` files."""

    max_bytes: int = 10 * 2**20
    max_files: int = 5


DEFAULT_LOGS: Final = LogLimits()
"""A kubelet's."""


class LogFiles:
    """The open files of a log, oldest first, read as one; the last one may grow."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        self._descriptors = list(descriptors)
        self._starts = [0]
        for each in self._descriptors[:-1]:
            self._starts.append(self._starts[-1] + os.fstat(each).st_size)

    @property
    def newest(self) -> int:
        return self._descriptors[-1]

    def size(self) -> int:
        return self._starts[-1] + os.fstat(self.newest).st_size

    def read(self, size: int, offset: int) -> bytes:
        """Read up to ``size`` bytes from one file; empty at the end. Waits for the disk."""
        index = bisect_right(self._starts, offset) - 1
        return os.pread(self._descriptors[index], size, offset - self._starts[index])

    def read_whole(self, size: int, offset: int) -> bytes:
        """``size`` bytes that are there, from however many files."""
        pieces = []
        while size > 0 and (piece := self.read(size, offset)):
            pieces.append(piece)
            size -= len(piece)
            offset += len(piece)
        return b"".join(pieces)

    def go_on(self, newer: LogFiles, *, offset: int) -> None:
        """Read ``newer`` from ``offset`` on, and let the files before it go."""
        self.close()
        self._descriptors, self._starts = newer._descriptors, [offset + each for each in newer._starts]

    def close(self) -> None:
        for each in self._descriptors:
            os.close(each)
        self._descriptors = []


async def open_logs(path: Path) -> LogFiles:
    """``path`` and the older files beside it, for the caller to close.

    Raises:
        FileNotFoundError: the log does not exist.
    """
    log = await _opened(partial(_open_all, path))
    assert log is not None
    return log


async def _opened(work: Callable[[], LogFiles | None]) -> LogFiles | None:
    """The files that ``work`` opens in a thread; when this is cancelled, they are closed, also if opened later."""
    opening = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_opened)
        raise


def _close_opened(opening: asyncio.Future[LogFiles | None]) -> None:
    if not opening.cancelled() and opening.exception() is None and (log := opening.result()) is not None:
        log.close()


def _open_all(path: Path) -> LogFiles:
    log = _open_after(None, path)
    assert log is not None
    return log


def _open_newer(path: Path, known: int) -> LogFiles | None:
    """The files that follow ``known``; None as long as that is the one that is written."""
    with suppress(FileNotFoundError):
        return _open_after(known, path)
    return None


def _open_after(known: int | None, path: Path) -> LogFiles | None:
    """However quickly the log is rotated meanwhile, no file between two others is missing."""
    while True:
        with ExitStack() as opened, suppress(_RotatedMeanwhile):
            newest = _open_newest(path, opened)
            if known is not None and os.path.sameopenfile(newest, known):
                return None
            log = LogFiles([*_open_older(_before(path, newest), opened, known=known), newest])
            opened.pop_all()
            return log


class _RotatedMeanwhile(Exception):
    """The file that was opened as the newest is gone by now."""


def _open_newest(path: Path, opened: ExitStack) -> int:
    try:
        return _open(path, opened)
    except FileNotFoundError:
        if not (moved := rotated(path)):
            raise
    try:
        return _open(moved[-1], opened)  # an engine has yet to begin another one
    except FileNotFoundError:
        raise _RotatedMeanwhile from None


def _before(path: Path, newest: int) -> list[Path]:
    """The files older than ``newest``, also when that is rotated meanwhile. Looks at few, however many there are."""
    moved = rotated(path)
    if _is_at(path, newest):
        return moved[:-1] if moved and _is_at(moved[-1], newest) else moved  # amid a rotation it has both names
    for number in reversed(range(len(moved))):
        if _is_at(moved[number], newest):
            return moved[:number]
    raise _RotatedMeanwhile


def _open_older(files: Sequence[Path], opened: ExitStack, *, known: int | None) -> list[int]:
    """The youngest is opened first: the oldest may be removed meanwhile, and then what is older is gone as well."""
    older: list[int] = []
    with suppress(FileNotFoundError):
        for each in reversed(files):
            if known is not None and _is_at(each, known):
                break
            older.insert(0, _open(each, opened))
    return older


def _open(path: Path, opened: ExitStack) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    opened.callback(os.close, descriptor)
    return descriptor


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def rotated(path: Path) -> list[Path]:
    """The older files of a log, oldest first. Waits for the disk."""
    prefix = f"{path.name}."
    with os.scandir(path.parent) as entries:
        names = [each.name for each in entries if each.name.startswith(prefix)]
    found = [name for name in names if _ROTATED.fullmatch(name.removeprefix(prefix))]
    return [path.with_name(name) for name in sorted(found, key=lambda name: (len(name), name))]


LineRule = Callable[[bytes], bool]
"""Tells of a line of a file whether the next one goes on with it, so that both count as one."""


def never(line: bytes) -> bool:
    return False


async def read_log(path: Path, *, tail: int | None, is_continued: LineRule = never) -> AsyncGenerator[bytes, None]:
    """The last ``tail`` lines (None: all) up to where the log ends now, in chunks."""
    log = await open_logs(path)
    try:
        end = log.size()
        offset = await asyncio.to_thread(tail_offset, log, end=end, lines=tail, is_continued=is_continued)
        while offset < end and (chunk := await asyncio.to_thread(log.read, min(end - offset, _CHUNK_BYTES), offset)):
            offset += len(chunk)
            yield chunk
    finally:
        log.close()


async def follow_log(
    path: Path, *, tail: int | None, ended: Awaitable[object], is_continued: LineRule = never
) -> AsyncGenerator[bytes, None]:
    """Read a log as `read_log` does, and go on with new lines until ``ended`` is over and everything was read.

    A log that is rotated is followed from file to file.
    """
    log = await open_logs(path)
    try:
        async with Inotify() as growth:
            growth.add(path.parent, Mask.MODIFY | Mask.CREATE | Mask.MOVED_TO)
            waiting = asyncio.ensure_future(ended)
            # When the container has ended, `growth` is closed, and from then on there is nothing to receive.
            waiting.add_done_callback(lambda _: growth.close())
            try:
                offset = await asyncio.to_thread(
                    tail_offset, log, end=log.size(), lines=tail, is_continued=is_continued
                )
                while True:
                    was_over = waiting.done()
                    newer = await _opened(partial(_open_newer, path, log.newest))
                    try:
                        while chunk := await asyncio.to_thread(log.read, _CHUNK_BYTES, offset):
                            offset += len(chunk)
                            yield chunk
                        if newer is not None:
                            log.go_on(newer, offset=offset)
                            newer = None
                        elif was_over:
                            waiting.result()
                            return
                        else:
                            await growth.receive()
                    finally:
                        if newer is not None:
                            newer.close()
            finally:
                waiting.cancel()
    finally:
        log.close()


def tail_offset(log: LogFiles, *, end: int, lines: int | None, is_continued: LineRule = never) -> int:
    """The offset of the last ``lines`` lines of the first ``end`` bytes; the last line need not be complete."""
    if lines is None:
        return 0
    if lines <= 0:
        return end
    start, rest, found = end, b"", 0

    def is_beyond(line: bytes, line_end: int) -> bool:
        """Whether a line, seen from the end, is the first that is not wanted."""
        nonlocal found
        found += line_end == end or not is_continued(line)
        return found > lines

    while start > 0:
        size = min(_CHUNK_BYTES, start)
        start -= size
        block = log.read_whole(size, start) + rest
        at = len(block)
        while (before := block.rfind(b"\n", 0, at - 1)) >= 0:
            if is_beyond(block[before + 1 : at], start + at):
                return start + at
            at = before + 1
        rest = block[:at]
    return len(rest) if is_beyond(rest, len(rest)) else 0


def log_end(path: Path, *, lines: int, is_continued: LineRule = never) -> bytes:
    """The last ``lines`` lines; empty without a log. Waits for the disk."""
    try:
        log = _open_all(path)
    except FileNotFoundError:
        return b""
    try:
        end = log.size()
        start = tail_offset(log, end=end, lines=lines, is_continued=is_continued)
        return log.read_whole(end - start, start)
    finally:
        log.close()
