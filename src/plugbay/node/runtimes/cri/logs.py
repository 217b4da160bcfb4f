"""Logs in CRI format: lines of ``TIME STREAM TAGS TEXT``, what they say, and following one that grows."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncGenerator, Awaitable
from datetime import datetime
from pathlib import Path
from typing import Final

from plugbay.kernel.inotify import Inotify, Mask
from plugbay.node.runtimes.port import UNTIMED, LogTimes
from plugbay.node.runtimes.process.logs import open_log, read_chunk, tail_offset

_PARTIAL: Final = b"P"
_FRACTION: Final = re.compile(rb"(?:\.([0-9]+))?(?=Z$|[-+][0-9]{2}:[0-9]{2}$)")


class CriLogDecoder:
    """Turns a log file's bytes, cut anywhere, into what the container wrote: pure.

    A partial line is continued by the next one, and has the time of its beginning. What is no line of this format is
    passed on as it is.
    """

    def __init__(self, times: LogTimes = UNTIMED) -> None:
        self._times = times
        self._rest = b""
        self._is_at_start = True

    def feed(self, chunk: bytes) -> bytes:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return b"".join(map(self._text, lines))

    def _text(self, line: bytes) -> bytes:
        fields = line.split(b" ", 3)
        if len(fields) < 3 or fields[1] not in (b"stdout", b"stderr"):
            return line + b"\n"
        if self._times.since is not None and _is_before(fields[0], self._times.since):
            return b""
        text = fields[3] if len(fields) == 4 else b""
        if self._times.are_shown and self._is_at_start:
            text = _FRACTION.sub(_nine_digits, fields[0], count=1) + b" " + text
        self._is_at_start = fields[2].split(b":")[0] != _PARTIAL
        return text + b"\n" if self._is_at_start else text


def _is_before(time: bytes, since: datetime) -> bool:
    """What is no time is not."""
    try:
        return datetime.fromisoformat(time.decode()) < since
    except (ValueError, TypeError):
        return False


def _nine_digits(fraction: re.Match[bytes]) -> bytes:
    """As a kubelet shows times, so that lines are aligned; engines leave out zeros at the end."""
    return b"." + fraction[1].ljust(9, b"0") if fraction[1] else b".000000000"


def log_end(path: Path, *, lines: int) -> bytes:
    """What the last ``lines`` lines of the file say; nothing when there is no file. Waits for the disk."""
    try:
        log = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    with os.fdopen(log, "rb") as file:
        file.seek(tail_offset(log, end=os.fstat(log).st_size, lines=lines))
        return CriLogDecoder().feed(file.read())


async def read_log(path: Path, *, tail: int | None, times: LogTimes = UNTIMED) -> AsyncGenerator[bytes, None]:
    """What the last ``tail`` lines of the file (None: all) say; nothing when there is no file."""
    try:
        log = await open_log(path)
    except FileNotFoundError:
        return
    try:
        decoder = CriLogDecoder(times)
        end = os.fstat(log).st_size
        offset = await asyncio.to_thread(tail_offset, log, end=end, lines=tail)
        while chunk := await read_chunk(log, offset, end=end):
            offset += len(chunk)
            if text := decoder.feed(chunk):
                yield text
    finally:
        os.close(log)


async def follow_log(
    path: Path, *, tail: int | None, ended: Awaitable[object], times: LogTimes = UNTIMED
) -> AsyncGenerator[bytes, None]:
    """As `read_log`, and on with what is added, until ``ended`` is over and everything was read.

    A log that is rotated, which is moved away before the engine begins another one, is followed into the new one.
    """
    log = await open_log(path)
    try:
        async with Inotify() as growth:
            growth.add(path.parent, Mask.MODIFY | Mask.CREATE | Mask.MOVED_TO)
            waiting = asyncio.ensure_future(ended)
            # When the container has ended, `growth` is closed, and from then on there is nothing to receive.
            waiting.add_done_callback(lambda _: growth.close())
            try:
                decoder = CriLogDecoder(times)
                offset = await asyncio.to_thread(tail_offset, log, end=os.fstat(log).st_size, lines=tail)
                while True:
                    was_over = waiting.done()
                    was_left = await asyncio.to_thread(_is_another, path, log)
                    while chunk := await read_chunk(log, offset):
                        offset += len(chunk)
                        if text := decoder.feed(chunk):
                            yield text
                    if was_left:
                        with contextlib.suppress(FileNotFoundError):  # again, in this moment
                            newer = await open_log(path)
                            os.close(log)
                            log, offset = newer, 0
                    elif was_over:
                        waiting.result()
                        return
                    else:
                        await growth.receive()
            finally:
                waiting.cancel()
    finally:
        os.close(log)


def _is_another(path: Path, log: int) -> bool:
    """Whether the file at ``path`` is not ``log`` any more; False as long as there is none."""
    try:
        return not os.path.samestat(path.stat(), os.fstat(log))
    except FileNotFoundError:
        return False
