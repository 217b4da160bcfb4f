"""Logs in CRI format: lines of ``TIME STREAM TAGS TEXT``, what they say, and following one that grows."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from plugbay.runtimes import log_files
from plugbay.runtimes.port import UNTIMED, LogTimes

_PARTIAL: Final = b"P"
_FRACTION: Final = re.compile(rb"(?:\.([0-9]+))?(?=Z$|[-+][0-9]{2}:[0-9]{2}$)")


class CriLogDecoder:
    """Turns a log file's bytes, cut anywhere, into what the container wrote. Pure.

    A partial line is continued by the next one, and has the time of its beginning. A line of another format is
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
    """Whether ``time`` is before ``since``; a text that is not a time is not."""
    try:
        return datetime.fromisoformat(time.decode()) < since
    except (ValueError, TypeError):
        return False


def _nine_digits(fraction: re.Match[bytes]) -> bytes:
    """Write a time with nine digits, as a kubelet does, so that lines are aligned; engines omit zeros at the end."""
    return b"." + fraction[1].ljust(9, b"0") if fraction[1] else b".000000000"


def log_end(path: Path, *, lines: int) -> bytes:
    """The texts of the last ``lines`` lines of the log; empty without a log. Waits for the disk."""
    return CriLogDecoder().feed(log_files.log_end(path, lines=lines))


async def read_log(path: Path, *, tail: int | None, times: LogTimes = UNTIMED) -> AsyncGenerator[bytes, None]:
    """The texts of the last ``tail`` lines of the log (None: all); empty without a log."""
    with suppress(FileNotFoundError):
        async for text in _decoded(log_files.read_log(path, tail=tail), times):
            yield text


async def follow_log(
    path: Path, *, tail: int | None, ended: Awaitable[object], times: LogTimes = UNTIMED
) -> AsyncGenerator[bytes, None]:
    """Read a log as `read_log` does, and go on with new lines until ``ended`` is over and everything was read."""
    async for text in _decoded(log_files.follow_log(path, tail=tail, ended=ended), times):
        yield text


async def _decoded(chunks: AsyncGenerator[bytes, None], times: LogTimes) -> AsyncGenerator[bytes, None]:
    decoder = CriLogDecoder(times)
    async with aclosing(chunks):
        async for chunk in chunks:
            if text := decoder.feed(chunk):
                yield text
