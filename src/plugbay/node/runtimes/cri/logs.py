"""Logs in CRI format: lines of ``TIME STREAM TAGS TEXT``, what they say, and following one that grows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable
from pathlib import Path
from typing import Final

from plugbay.kernel.inotify import Inotify, Mask
from plugbay.node.runtimes.process.logs import read_chunk, tail_offset

_PARTIAL: Final = b"P"


class CriLogDecoder:
    """Turns a log file's bytes, cut anywhere, into what the container wrote: pure.

    A partial line is continued by the next one. What is no line of this format is passed on as it is.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return b"".join(map(_text, lines))


def _text(line: bytes) -> bytes:
    fields = line.split(b" ", 3)
    if len(fields) < 3 or fields[1] not in (b"stdout", b"stderr"):
        return line + b"\n"
    text = fields[3] if len(fields) == 4 else b""
    return text if fields[2].split(b":")[0] == _PARTIAL else text + b"\n"


def log_end(path: Path, *, lines: int) -> bytes:
    """What the last ``lines`` lines of the file say; nothing when there is no file. Waits for the disk."""
    try:
        log = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    with os.fdopen(log, "rb") as file:
        file.seek(tail_offset(log, end=os.fstat(log).st_size, lines=lines))
        return CriLogDecoder().feed(file.read())


async def read_log(path: Path, *, tail: int | None) -> AsyncGenerator[bytes, None]:
    """What the last ``tail`` lines of the file (None: all) say; nothing when there is no file."""
    try:
        log = await asyncio.to_thread(os.open, path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        decoder = CriLogDecoder()
        end = os.fstat(log).st_size
        offset = await asyncio.to_thread(tail_offset, log, end=end, lines=tail)
        while chunk := await read_chunk(log, offset, end=end):
            offset += len(chunk)
            if text := decoder.feed(chunk):
                yield text
    finally:
        os.close(log)


async def follow_log(path: Path, *, tail: int | None, ended: Awaitable[object]) -> AsyncGenerator[bytes, None]:
    """As `read_log`, and on with what is added, until ``ended`` is over and everything was read."""
    log = await asyncio.to_thread(os.open, path, os.O_RDONLY)
    try:
        async with Inotify() as growth:
            growth.add(path, Mask.MODIFY)
            waiting = asyncio.ensure_future(ended)
            # When the container has ended, `growth` is closed, and from then on there is nothing to receive.
            waiting.add_done_callback(lambda _: growth.close())
            try:
                decoder = CriLogDecoder()
                offset = await asyncio.to_thread(tail_offset, log, end=os.fstat(log).st_size, lines=tail)
                while True:
                    was_over = waiting.done()
                    while chunk := await read_chunk(log, offset):
                        offset += len(chunk)
                        if text := decoder.feed(chunk):
                            yield text
                    if was_over:
                        waiting.result()
                        return
                    await growth.receive()
            finally:
                waiting.cancel()
    finally:
        os.close(log)
