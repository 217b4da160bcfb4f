"""A connection of the HTTP server after it has switched to another protocol."""

from __future__ import annotations

import asyncio
import select
from typing import Final

_READ_BYTES: Final = 64 * 1024


class SwitchedConnection:
    """An `UpgradedStream`; ``early`` came together with the request."""

    def __init__(self, early: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._early = early
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        early, self._early = self._early, b""
        return early or await self._reader.read(_READ_BYTES)

    async def write(self, chunk: bytes) -> None:
        self._writer.write(chunk)
        await self._writer.drain()

    async def until_gone(self) -> None:
        # The loop itself looks for what can be read only. An epoll of its own is readable when it has something to say.
        with select.epoll() as hang_ups:
            hang_ups.register(self._writer.get_extra_info("socket").fileno(), select.EPOLLRDHUP)
            gone = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.add_reader(hang_ups.fileno(), gone.set)
            try:
                await gone.wait()
            finally:
                loop.remove_reader(hang_ups.fileno())
