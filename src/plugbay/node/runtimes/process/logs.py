"""Reading the log of an instance: the end of it, and what is still being added."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

from plugbay.kernel.inotify import Inotify, Mask
from plugbay.kernel.processes import ProcessIdentity, watch_end

_CHUNK_BYTES: Final = 64 * 1024


async def read_log(path: Path, *, tail: int | None) -> AsyncGenerator[bytes, None]:
    """The last ``tail`` lines (None: all) up to where the log ends now, in chunks."""
    log = await open_log(path)
    try:
        end = os.fstat(log).st_size
        offset = await asyncio.to_thread(tail_offset, log, end=end, lines=tail)
        while chunk := await read_chunk(log, offset, end=end):
            offset += len(chunk)
            yield chunk
    finally:
        os.close(log)


async def follow_log(
    path: Path, *, tail: int | None, writer: ProcessIdentity, proc_root: Path
) -> AsyncGenerator[bytes, None]:
    """As `read_log`, and on with what is added, until ``writer`` has ended and everything was read."""
    log = await open_log(path)
    try:
        async with Inotify() as growth:
            growth.add(path, Mask.MODIFY)
            offset = await asyncio.to_thread(tail_offset, log, end=os.fstat(log).st_size, lines=tail)
            # When the writer has ended, `growth` is closed, and from then on there is nothing to receive.
            with watch_end(writer, growth.close, proc_root=proc_root):
                ended = False
                while True:
                    while chunk := await read_chunk(log, offset):
                        offset += len(chunk)
                        yield chunk
                    if ended:
                        return
                    ended = not await growth.receive()
    finally:
        os.close(log)


async def open_log(path: Path) -> int:
    """The file, for the caller to close; when cancelled, what a thread has opened by then or opens later is closed."""
    opening = asyncio.ensure_future(asyncio.to_thread(os.open, path, os.O_RDONLY))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_opened)
        raise


def _close_opened(opening: asyncio.Future[int]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        os.close(opening.result())


def tail_offset(log: int, *, end: int, lines: int | None) -> int:
    """Where the last ``lines`` lines of the first ``end`` bytes begin; a line need not be ended."""
    if lines is None:
        return 0
    if lines <= 0:
        return end
    start = end
    missing = lines + 1  # the newline before the first wanted line
    while start > 0:
        size = min(_CHUNK_BYTES, start)
        start -= size
        block = os.pread(log, size, start)
        if start + size == end and not block.endswith(b"\n"):
            missing -= 1
        if block.count(b"\n") < missing:
            missing -= block.count(b"\n")
            continue
        at = len(block)
        for _ in range(missing):
            at = block.rindex(b"\n", 0, at)
        return start + at + 1
    return 0


async def read_chunk(log: int, offset: int, *, end: int | None = None) -> bytes:
    """What is there at ``offset``, not past ``end``; empty at the end of the log."""
    limit = _CHUNK_BYTES if end is None else min(end - offset, _CHUNK_BYTES)
    return await asyncio.to_thread(os.pread, log, limit, offset)
