"""Streams whose readers have gone without a word, or never read: they keep no other reader out."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace

from plugbay.ops.http import serve_http
from plugbay.ops.http_limits import PAGES
from plugbay.ops.listening import TcpAddress
from plugbay.ops.routing import Request, Router, StreamResponse

_MUCH = b"x" * (1 << 20)
_READERS = 20


class _Streams:
    """Serves streams, and tells which have ended."""

    def __init__(self, *, pieces: int, write_s: float | None) -> None:
        self.begun = 0
        self.ended: asyncio.Queue[int] = asyncio.Queue()
        self.router = Router()
        self.router.add("GET", "/", self._answer)
        self._pieces = pieces
        self._write_s = write_s

    async def _answer(self, request: Request) -> StreamResponse:
        self.begun += 1
        return StreamResponse(self._chunks(self.begun), write_s=self._write_s)

    async def _chunks(self, number: int) -> AsyncIterator[bytes]:
        try:
            for _ in range(self._pieces):
                yield _MUCH
            yield b"begun"
            await asyncio.Event().wait()
        finally:
            self.ended.put_nowait(number)


async def _ask(address: TcpAddress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", address.port, limit=1 << 10)
    writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    return reader, writer


async def test_the_oldest_stream_makes_room_for_one_more_reader() -> None:
    streams = _Streams(pieces=0, write_s=None)
    limits = replace(PAGES, connections=3, streams_yield=True)
    async with asyncio.timeout(20), serve_http(streams.router, TcpAddress("127.0.0.1", 0), limits=limits) as at:
        assert isinstance(at, TcpAddress)
        writers = []
        for _ in range(5):
            reader, writer = await _ask(at)
            await reader.readuntil(b"begun")
            writers.append(writer)
        assert [await streams.ended.get(), await streams.ended.get()] == [1, 2]
        for writer in writers:
            writer.close()
            await writer.wait_closed()


async def test_a_reader_that_takes_nothing_is_given_up() -> None:
    streams = _Streams(pieces=64, write_s=0.2)
    async with asyncio.timeout(20), serve_http(streams.router, TcpAddress("127.0.0.1", 0), limits=PAGES) as at:
        assert isinstance(at, TcpAddress)
        _, writer = await _ask(at)
        assert await streams.ended.get() == 1
        writer.transport.abort()


async def test_a_large_piece_is_not_copied_for_each_reader_that_takes_nothing() -> None:
    streams = _Streams(pieces=8, write_s=None)
    async with asyncio.timeout(20), serve_http(streams.router, TcpAddress("127.0.0.1", 0)) as at:
        assert isinstance(at, TcpAddress)
        tracemalloc.start()
        waiting = [await _ask(at) for _ in range(_READERS)]
        for reader, _ in waiting:
            await reader.readuntil(b"\r\n\r\n")
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held / _READERS < len(_MUCH) / 2
        for _, writer in waiting:
            writer.transport.abort()
        assert sorted([await streams.ended.get() for _ in waiting]) == list(range(1, _READERS + 1))
