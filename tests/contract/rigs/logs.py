"""What is logged, for tests to wait for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

import pytest

DEADLINE_S = 30


class Log(logging.Handler):
    """The lines of our log; a test can wait for one."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._grown = asyncio.Event()
        self._heard: list[tuple[str, Callable[[], object]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        for text, tell in self._heard:
            if text in self.lines[-1]:
                tell()
        self._grown.set()

    def on(self, text: str, tell: Callable[[], object]) -> None:
        """Call ``tell`` when ``text`` is in a line, in the thread that writes it."""
        self._heard.append((text, tell))

    async def seen(self, text: str) -> None:
        """Wait until ``text`` is in a line."""
        async with asyncio.timeout(DEADLINE_S):
            while not any(text in line for line in self.lines):
                self._grown.clear()
                await self._grown.wait()

    async def seen_once(self, *lines: str) -> None:
        """Wait until each of ``lines`` is there, and see that it is there once."""
        async with asyncio.timeout(DEADLINE_S):
            while not set(lines) <= set(self.lines):
                self._grown.clear()
                await self._grown.wait()
        assert [self.lines.count(line) for line in lines] == [1] * len(lines)


class Errors(logging.Handler):
    """What is logged as an error, to be waited for."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._said: asyncio.Queue[str] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self._said.put_nowait(record.getMessage())

    async def next(self) -> str:
        async with asyncio.timeout(DEADLINE_S):
            return await self._said.get()

    @property
    def more(self) -> int:
        return self._said.qsize()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[Log]:
    caplog.set_level(logging.INFO, "plugbay")
    handler = Log()
    logging.getLogger("plugbay").addHandler(handler)
    yield handler
    logging.getLogger("plugbay").removeHandler(handler)


@pytest.fixture
def errors() -> Iterator[Errors]:
    handler, logger = Errors(), logging.getLogger("plugbay")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
