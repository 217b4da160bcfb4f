"""The end of what a program prints, however much that is."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import Final

KEPT_BYTES: Final = 16_384
KEPT_LINES: Final = 200
"""Enough for the last words of a program, in a page that still can be read, however short the lines are."""


class OutputEnd:
    """Attributes:
    size: all bytes so far.
    listeners: called with each piece as it comes.
    """

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self.size = 0
        self.listeners: list[Callable[[bytes], object]] = []
        self._kept = kept_bytes
        self._pieces: deque[bytes] = deque()
        self._held = 0

    def add(self, piece: bytes) -> None:
        """Take what was printed next; what is too old is forgotten."""
        self.size += len(piece)
        for listener in self.listeners:
            listener(piece)
        self._pieces.append(piece[-self._kept :])
        self._held += len(self._pieces[-1])
        while self._held - len(self._pieces[0]) >= self._kept:
            self._held -= len(self._pieces.popleft())

    @property
    def text(self) -> str:
        """The end; bytes that are not UTF-8 are shown escaped."""
        kept = b"".join(self._pieces)[-self._kept :]
        return b"".join(kept.splitlines(keepends=True)[-KEPT_LINES:]).decode(errors="backslashreplace")

    async def follow(self, pipe: int) -> None:
        """Take all that comes from ``pipe``, to its end; closes it."""
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb", buffering=0)
        )
        try:
            while piece := await reader.read(65_536):
                self.add(piece)
        finally:
            transport.close()
