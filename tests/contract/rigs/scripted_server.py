"""A server whose every frame a test decides, for what no gRPC server sends in time, or at all."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

from plugbay.wire.grpc.framing import frame
from plugbay.wire.http2.connection import Http2Connection, Http2Limits, Role
from plugbay.wire.http2.events import DataReceived, Event, HeadersReceived
from plugbay.wire.http2.header_blocks import encode

ANSWER: Final = encode([(b":status", b"200"), (b"content-type", b"application/grpc")])
OK: Final = encode([(b"grpc-status", b"0")])
DEADLINE_S: Final = 30
_E = TypeVar("_E", bound=Event)


class ScriptedLink:
    """The server's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Http2Limits) -> None:
        self.http2 = Http2Connection(Role.SERVER, limits, time.monotonic)
        self._reader = reader
        self.writer = writer
        self._events: list[Event] = []

    def send(self) -> None:
        """Send what `http2` has to send."""
        self.writer.write(self.http2.take())

    async def until(self, kind: type[_E]) -> _E:
        """The next event of this kind; those before it are gone."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                while self._events:
                    event = self._events.pop(0)
                    if isinstance(event, kind):
                        return event
                piece = await self._reader.read(65_536)
                assert piece, "the client has hung up"
                self._events += self.http2.receive(piece)
                self.send()

    async def until_end(self) -> bytes:
        """All that the client sends before it hangs up."""
        async with asyncio.timeout(DEADLINE_S):
            return await self._reader.read()

    async def until_call(self) -> int:
        """The stream of the next call, of which all has arrived."""
        stream = (await self.until(HeadersReceived)).stream
        while not (await self.until(DataReceived)).ends:
            pass
        return stream

    def answer(self, stream: int, message: bytes) -> None:
        """Answer a unary call."""
        self.http2.send_headers(stream, ANSWER)
        self.http2.send_data(stream, frame(message))
        self.http2.send_headers(stream, OK, ends=True)
        self.send()


class ScriptedServer:
    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._links: list[ScriptedLink] = []

    async def accept(self, limits: Http2Limits | None = None, *, first: bytes | None = None) -> ScriptedLink:
        """The next client.

        Args:
            first: what it is sent first, instead of our settings.
        """
        async with asyncio.timeout(DEADLINE_S):
            connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            link = ScriptedLink(*await asyncio.open_unix_connection(sock=connection), limits or Http2Limits())
        self._links.append(link)
        greeting = link.http2.take()
        link.writer.write(greeting if first is None else first)
        return link

    def hang_up(self) -> None:
        for link in self._links:
            link.writer.close()


@asynccontextmanager
async def scripted_server(path: Path, *, backlog: int = 128) -> AsyncIterator[ScriptedServer]:
    """A server at ``path`` that accepts when it is told to."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.setblocking(False)
        listener.bind(os.fspath(path))
        listener.listen(backlog)
        server = ScriptedServer(listener)
        try:
            yield server
        finally:
            server.hang_up()
