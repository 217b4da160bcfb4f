"""The streams of one SPDY connection for tasks: each reads and writes its own.

SPDY as Kubernetes speaks it has no flow control. Chunks wait here until their stream is read; when too many wait, the
connection is not read, so that the peer waits with all of its streams.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Final, Protocol

from plugbay.wire.spdy.connection import (
    MAX_STREAMS,
    SpdyAnswer,
    SpdyConnection,
    SpdyData,
    SpdyEnded,
    SpdyEvent,
    SpdyGoAway,
    SpdyOpened,
    SpdyReset,
    SpdyRole,
)
from plugbay.wire.spdy.frames import SpdyFault

_BACKLOG_BYTES: Final = 4 * 1024 * 1024
"""Enough for the others to go on for a while when one stream is not read."""
_CHUNK_OVERHEAD_BYTES: Final = 64
_WRITE_BYTES: Final = 64 * 1024
_MAX_ANSWERS: Final = 1000


class BytePipe(Protocol):
    """The bytes of a connection, both ways."""

    async def read(self) -> bytes:
        """Wait for bytes and return them; empty at the end."""
        ...

    async def write(self, chunk: bytes) -> None:
        """Send; what is written first is sent first. Returns when there is room for more.

        Raises:
            ConnectionError: the peer is gone.
        """
        ...


class _Coming(Enum):
    """The prospects of a stream's reader."""

    MORE = "more"
    ENDED = "ended"
    RESET = "reset"


class SpdyStream:
    """One stream; reading and writing raise ConnectionResetError once it is reset, or the connection is lost."""

    def __init__(self, session: SpdySession, number: int, headers: Mapping[str, str]) -> None:
        self._session = session
        self._chunks: deque[bytes] = deque()
        self._coming = _Coming.MORE
        self._changed = asyncio.Event()
        self.number = number
        self.headers = headers

    async def read(self) -> bytes:
        """Wait for a chunk and return it; empty once the peer has ended its side."""
        while not self._chunks and self._coming is _Coming.MORE:
            self._changed.clear()
            await self._changed.wait()
        if self._chunks:
            chunk = self._chunks.popleft()
            self._session.is_taken(chunk)
            return chunk
        if self._coming is _Coming.RESET:
            raise ConnectionResetError("the stream was reset")
        return b""

    async def write(self, chunk: bytes) -> None:
        """Send; waits as long as the peer takes nothing."""
        for start in range(0, len(chunk), _WRITE_BYTES):
            await self._session.write(self.number, chunk[start : start + _WRITE_BYTES])

    async def accept(self) -> None:
        """Answer the peer that has opened the stream."""
        await self._session.send(self._session.connection.accept(self.number))

    async def end(self) -> None:
        """End our side. Harmless twice."""
        await self._session.end(self.number)

    async def reset(self) -> None:
        """Give the stream up, both ways, with what has not been read. Harmless twice."""
        self.drop()
        await self._session.reset(self.number)

    # --- the session's side ------------------------------------------------------------------------------------------

    def add(self, chunk: bytes) -> None:
        """Let a chunk wait to be read."""
        self._chunks.append(chunk)
        self._changed.set()

    def finish(self) -> None:
        """The peer has ended its side."""
        self._coming = _Coming.ENDED
        self._changed.set()

    def lose(self) -> None:
        """The connection is lost; a stream that the peer had ended is whole."""
        if self._coming is _Coming.MORE:
            self.drop()

    def drop(self) -> None:
        """The stream is reset; what waits is dropped unread."""
        self._coming = _Coming.RESET
        while self._chunks:
            self._session.is_taken(self._chunks.popleft())
        self._changed.set()


class SpdySession:
    """One connection, which `receive` serves.

    Attributes:
        arrivals: the streams that the peer has opened; None after the last one.
    """

    def __init__(self, pipe: BytePipe, role: SpdyRole, *, max_streams: int = MAX_STREAMS) -> None:
        self._pipe = pipe
        self._streams: dict[int, SpdyStream] = {}
        self._backlog = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._answers: asyncio.Queue[bytes] = asyncio.Queue(_MAX_ANSWERS)
        self.connection = SpdyConnection(role, max_streams=max_streams)
        self.arrivals: asyncio.Queue[SpdyStream | None] = asyncio.Queue()

    async def receive(self) -> None:
        """Take in what the peer sends until it leaves; then all streams that it has not ended are reset.

        Raises:
            SpdyFault: the peer breaks the protocol.
            ConnectionError: the connection broke.
        """
        problem: SpdyFault | ConnectionError | None = None
        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(self._answer(), name="answer a SPDY peer")
            try:
                await self._receive()
            except (SpdyFault, ConnectionError) as error:  # the group would wrap it
                problem = error
            finally:
                answering.cancel()
                self._lose_all()
        if problem is not None:
            raise problem

    async def open(self, headers: Mapping[str, str]) -> SpdyStream:
        """Open a stream, which can be written at once."""
        number, frame = self.connection.open(headers)
        stream = self._streams[number] = SpdyStream(self, number, headers)
        await self.send(frame)
        return stream

    async def write(self, number: int, chunk: bytes) -> None:
        """Send a chunk on a stream.

        Raises:
            ConnectionResetError: the stream is over.
        """
        frame = self.connection.send(number, chunk)
        if not frame and chunk:
            raise ConnectionResetError("the stream was reset")
        await self.send(frame)

    async def send(self, frame: bytes) -> None:
        """Send what the connection has made; the caller must not have waited since."""
        if frame:
            await self._pipe.write(frame)

    async def end(self, number: int) -> None:
        """End our side of a stream."""
        frame = self.connection.end(number)
        self._tidy(number)
        await self.send(frame)

    async def reset(self, number: int) -> None:
        """Reset a stream."""
        frame = self.connection.reset(number)
        self._tidy(number)
        await self.send(frame)

    async def leave(self) -> None:
        """Tell the peer that the connection is closed next."""
        await self.send(self.connection.go_away())

    def is_taken(self, chunk: bytes) -> None:
        """Count a chunk out that waited to be read."""
        self._backlog -= len(chunk) + _CHUNK_OVERHEAD_BYTES
        if self._backlog < _BACKLOG_BYTES:
            self._has_room.set()

    async def _receive(self) -> None:
        while piece := await self._pipe.read():
            for event in self.connection.feed(piece):
                if isinstance(event, SpdyGoAway):
                    return
                self._take(event)
            await self._has_room.wait()

    def _take(self, event: SpdyEvent) -> None:
        match event:
            case SpdyOpened(number, headers):
                stream = self._streams[number] = SpdyStream(self, number, headers)
                self.arrivals.put_nowait(stream)
            case SpdyData(number, chunk):
                self._streams[number].add(chunk)
                self._backlog += len(chunk) + _CHUNK_OVERHEAD_BYTES
                if self._backlog >= _BACKLOG_BYTES:
                    self._has_room.clear()
            case SpdyEnded(number):
                self._streams[number].finish()
                self._tidy(number)
            case SpdyReset(number):
                self._streams[number].drop()
                self._tidy(number)
            case SpdyAnswer(content):
                try:
                    self._answers.put_nowait(content)
                except asyncio.QueueFull:
                    raise SpdyFault("the peer takes no answers and asks for more") from None

    async def _answer(self) -> None:
        """Send answers apart from reading: a peer that waits for us to read would not take them."""
        with contextlib.suppress(ConnectionError):  # reading ends too
            while True:
                await self.send(await self._answers.get())

    def _tidy(self, number: int) -> None:
        """Forget a stream that is over both ways; its reader may still read what has come."""
        if not self.connection.is_open(number):
            self._streams.pop(number, None)

    def _lose_all(self) -> None:
        for stream in self._streams.values():
            stream.lose()
        self._streams.clear()
        self.arrivals.put_nowait(None)
