"""Clients with the smallest usual windows, as Go's and Node's have at first: long answers arrive whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import pytest

from plugbay.wire.grpc.framing import MessageReader
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import ServerStream, Service, Unary
from plugbay.wire.http2.connection import Http2Connection
from plugbay.wire.http2.events import DataReceived, HeadersReceived
from plugbay.wire.http2.header_blocks import encode
from plugbay.wire.http2.settings import Http2Limits, Role

DEADLINE_S: Final = 30
SIZE: Final = 3 * 1024 * 1024
READ_BYTES: Final = 65_536
EMPTY: Final = bytes(5)
QUIET_S: Final = 0.05
"""By then the client has acknowledged the settings, and sends nothing before it is sent something."""


async def answers_of(path: Path, method: str) -> list[bytes]:
    """The answers to an empty request, read by a client that gives each window back as it reads."""
    http2 = Http2Connection(Role.CLIENT, Http2Limits(stream_window=65_535, connection_window=65_535), time.monotonic)
    reader, writer = await asyncio.open_unix_connection(str(path))
    messages, found = MessageReader(SIZE), []
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", method.encode())]
    fields += [(b":authority", b"localhost"), (b"content-type", b"application/grpc"), (b"te", b"trailers")]
    stream = http2.open(encode(fields))
    http2.send_data(stream, EMPTY, ends=True)
    try:
        while True:
            writer.write(http2.take())
            for event in http2.receive(await reader.read(READ_BYTES)):
                if isinstance(event, DataReceived):
                    http2.consumed(event.stream, len(event.data))
                    found += messages.read(event.data)
                elif isinstance(event, HeadersReceived) and event.ends:
                    assert dict(event.fields)[b"grpc-status"] == b"0"
                    return found
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("size", [65_530, 65_531, 200_000, SIZE])
async def test_a_long_answer_arrives(sockets: Path, size: int) -> None:
    async def answer(_: bytes) -> bytes:
        await asyncio.sleep(QUIET_S)
        return b"x" * size

    async with (
        asyncio.timeout(DEADLINE_S),
        serve_grpc(sockets / "s", [Service("t.Service", {"Get": Unary(answer)})]),
    ):
        assert await answers_of(sockets / "s", "/t.Service/Get") == [b"x" * size]


async def test_long_messages_of_a_stream_arrive(sockets: Path) -> None:
    async def answers(_: bytes, __: Metadata) -> AsyncGenerator[bytes, None]:
        for letter in (b"a", b"b", b"c"):
            yield letter * 200_000

    async with (
        asyncio.timeout(DEADLINE_S),
        serve_grpc(sockets / "s", [Service("t.Service", {"Watch": ServerStream(answers)})]),
    ):
        found = await answers_of(sockets / "s", "/t.Service/Watch")
    assert [(each[:1], len(each)) for each in found] == [(b"a", 200_000), (b"b", 200_000), (b"c", 200_000)]
