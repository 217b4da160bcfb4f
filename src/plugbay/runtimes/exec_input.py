"""The input of a command while it runs in a container, and the size of its terminal."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Protocol

from plugbay.values import dataclass


class Console(Enum):
    """The kind of a command's standard streams."""

    PIPES = "pipes"
    TERMINAL = "terminal"


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """The size of a terminal, in characters."""

    width: int
    height: int


class InputSink(Protocol):
    """The place where a runtime wants input to go; no call waits."""

    def write(self, chunk: bytes) -> None: ...

    def end(self) -> None: ...

    def resize(self, size: TerminalSize) -> None: ...


class ExecInput:
    """Passes input from a client to a runtime; sending waits until the command takes more.

    The runtime connects a sink when the command has started, says when it is full, and disconnects it at the end;
    what is sent later is dropped. A command does not have to take the size of its terminal, so that this never waits.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._sink: InputSink | None = None
        self._ready = asyncio.Event()
        self._size: TerminalSize | None = None

    async def send(self, chunk: bytes) -> None:
        if sink := await self._taking():
            sink.write(chunk)

    async def end(self) -> None:
        if sink := await self._taking():
            sink.end()

    def resize(self, size: TerminalSize) -> None:
        self._size = size
        if self._sink is not None:
            self._sink.resize(size)

    def connect(self, sink: InputSink) -> None:
        self._sink = sink
        if self._size is not None:
            sink.resize(self._size)
        self._ready.set()

    def pause(self) -> None:
        self._ready.clear()

    def resume(self) -> None:
        self._ready.set()

    def disconnect(self) -> None:
        self._sink = None
        self._ready.set()

    async def _taking(self) -> InputSink | None:
        await self._ready.wait()
        return self._sink
