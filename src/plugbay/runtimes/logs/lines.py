"""Logs in the format of CRI: lines of ``TIME STREAM TAGS TEXT``, what they say, and following one that grows.

Engines write it, and so do our own wrappers.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from plugbay.runtimes.logs import files
from plugbay.runtimes.port import ALL_LINES, ExecStream, LogLines

_PARTIAL: Final = b"P"
_NAMES: Final = {ExecStream.STDOUT: b"stdout", ExecStream.STDERR: b"stderr"}
_FRACTION: Final = re.compile(rb"(?:\.([0-9]+))?(?=Z$|[-+][0-9]{2}:[0-9]{2}$)")


class LogDecoder:
    """Turns a log file's bytes, cut anywhere, into what the container wrote. Pure.

    A partial line is continued by the next one, and has the time of its beginning. A line of another format is
    passed on as it is.
    """

    def __init__(self, lines: LogLines = ALL_LINES) -> None:
        self._wanted = lines
        self._rest = b""
        self._is_at_start = True

    def feed(self, chunk: bytes) -> bytes:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return b"".join(map(self._text, lines))

    def finish(self) -> bytes:
        """The rest at the end of the log, which no line ended: it is of another format."""
        rest, self._rest = self._rest, b""
        return rest

    def _text(self, line: bytes) -> bytes:
        fields = line.split(b" ", 3)
        if len(fields) < 3 or fields[1] not in _NAMES.values():
            return line + b"\n"
        if self._wanted.stream is not None and fields[1] != _NAMES[self._wanted.stream]:
            return b""
        if self._wanted.since is not None and _is_before(fields[0], self._wanted.since):
            return b""
        text = fields[3] if len(fields) == 4 else b""
        if self._wanted.are_timed and self._is_at_start:
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


def is_continued(line: bytes) -> bool:
    """Whether the next line of the log goes on with the text of this one."""
    fields = line.split(b" ", 3)
    return len(fields) > 2 and fields[1] in _NAMES.values() and fields[2].split(b":")[0] == _PARTIAL


def log_end(path: Path, *, lines: int) -> bytes:
    """The texts of the last ``lines`` lines of the log; empty without a log. Waits for the disk."""
    decoder = LogDecoder()
    return decoder.feed(files.log_end(path, lines=lines, is_continued=is_continued)) + decoder.finish()


async def read_log(path: Path, *, tail: int | None, lines: LogLines = ALL_LINES) -> AsyncGenerator[bytes, None]:
    """The texts of the last ``tail`` lines of the log (None: all); empty without a log."""
    with suppress(FileNotFoundError):
        async for text in _decoded(files.read_log(path, tail=tail, is_continued=is_continued), lines):
            yield text


async def follow_log(
    path: Path, *, tail: int | None, ended: Awaitable[object], lines: LogLines = ALL_LINES
) -> AsyncGenerator[bytes, None]:
    """Read a log as `read_log` does, and go on with new lines until ``ended`` is over and everything was read."""
    chunks = files.follow_log(path, tail=tail, ended=ended, is_continued=is_continued)
    async for text in _decoded(chunks, lines):
        yield text


async def _decoded(chunks: AsyncGenerator[bytes, None], lines: LogLines) -> AsyncGenerator[bytes, None]:
    decoder = LogDecoder(lines)
    async with aclosing(chunks):
        async for chunk in chunks:
            if text := decoder.feed(chunk):
                yield text
    if rest := decoder.finish():
        yield rest
