"""Terminals that a test types at and reads."""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Terminal:
    master: int
    slave: int

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def mode(self) -> list[object]:
        return list(termios.tcgetattr(self.slave))

    async def shows(self, text: str) -> None:
        """Wait until ``text`` has been printed."""
        shown = b""
        readable = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self.master, readable.set)
        try:
            while text.encode() not in shown:
                await readable.wait()
                readable.clear()
                shown += os.read(self.master, 4096)
        finally:
            loop.remove_reader(self.master)

    @property
    def is_raw(self) -> bool:
        flags = termios.tcgetattr(self.slave)[3]
        return not flags & (termios.ICANON | termios.ISIG | termios.ECHO)


@contextmanager
def terminal() -> Iterator[Terminal]:
    master, slave = os.openpty()
    try:
        termios.tcsetwinsize(master, (24, 80))
        yield Terminal(master, slave)
    finally:
        os.close(master)
        os.close(slave)
