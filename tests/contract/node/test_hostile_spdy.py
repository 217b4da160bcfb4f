"""Clients over TLS that break SPDY or ask for too much: each loses its own connection, and others are served."""

from __future__ import annotations

import asyncio
import random
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from plugbay.wire.spdy.connection import MAX_STREAMS, SpdyConnection, SpdyRole
from plugbay.wire.spdy.frames import FrameKind, control_frame, data_frames
from plugbay.wire.spdy.header_blocks import DICTIONARY
from tests.contract.node.test_port_forward import MEGABYTE, echo, listening
from tests.contract.rigs.node_run import DEADLINE_S
from tests.contract.rigs.spdy_client import PORT_FORWARD, ApiNode, Pipe, api_node, ask, forwarded, forwarding

SYN = struct.pack(">IIH", 1, 0, 0)


@pytest.fixture
async def api(sockets: Path) -> AsyncIterator[ApiNode]:
    """At the end, an honest client is served as before."""
    async with api_node(sockets) as api:
        yield api
        async with listening(echo) as port, forwarding(api) as client:
            data, _ = await forwarded(client, port, "0")
            await data.write(b"still there")
            assert await data.read() == b"still there"


async def switched(api: ApiNode) -> Pipe:
    answer, pipe = await ask(api, "portforward", PORT_FORWARD)
    assert answer.status == 101
    return pipe


async def until_disconnected(pipe: Pipe) -> None:
    async with asyncio.timeout(DEADLINE_S):
        with suppress(ConnectionError):
            while await pipe.read():
                pass
    pipe.writer.transport.abort()


def packed(plain: bytes) -> bytes:
    compressor = zlib.compressobj(zdict=DICTIONARY)
    return compressor.compress(plain) + compressor.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize(
    "frames",
    [
        control_frame(FrameKind.SYN_STREAM, SYN + packed(struct.pack(">III", 1, 1, 0) + b"\0" * 50_000_000)),
        control_frame(FrameKind.SYN_STREAM, SYN + packed(struct.pack(">I", 2**32 - 1))),
        control_frame(FrameKind.SYN_STREAM, SYN + b"\x00" * 60_000),
        struct.pack(">II", 0x80030001, 2**24 - 1) + b"x" * 1000,
        struct.pack(">II", 0x80020001, 10),
        control_frame(FrameKind.PING, b""),
        data_frames(0, b"x"),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["bomb", "headers without end", "noise", "frame without end", "version", "ping", "stream 0", "HTTP"],
)
async def test_a_broken_frame_ends_the_connection(api: ApiNode, frames: bytes) -> None:
    pipe = await switched(api)
    with suppress(ConnectionError):
        await pipe.write(frames)
    await until_disconnected(pipe)


async def test_bytes_at_random_harm_nothing(api: ApiNode) -> None:
    dice = random.Random(1)
    for _ in range(20):
        pipe = await switched(api)
        kinds = [dice.choice((b"\x80\x03\x00", b"\x00\x00\x00", b"")) for _ in range(30)]
        with suppress(ConnectionError):
            await pipe.write(b"".join(kind + dice.randbytes(dice.randrange(40)) for kind in kinds))
        pipe.writer.transport.abort()


async def test_a_flood_of_streams_is_refused_in_part(api: ApiNode) -> None:
    """Those within the limit wait for their partners, the others are reset at once."""
    pipe = await switched(api)
    client = SpdyConnection(SpdyRole.CLIENT)
    flood = [client.open({"streamtype": "data", "port": "1", "requestid": str(number)})[1] for number in range(1500)]
    await pipe.write(b"".join(flood))
    answers = resets = 0
    received = bytearray()
    async with asyncio.timeout(DEADLINE_S):
        while answers + resets < len(flood):
            received += await pipe.read()
            while len(received) >= 8 and len(received) >= (end := 8 + int.from_bytes(received[5:8])):
                answers += received[3] == FrameKind.SYN_REPLY
                resets += received[3] == FrameKind.RST_STREAM
                del received[:end]
    assert (answers, resets) == (MAX_STREAMS, len(flood) - MAX_STREAMS)
    pipe.writer.transport.abort()


async def test_streams_opened_and_reset_without_end_cost_nothing(api: ApiNode) -> None:
    pipe = await switched(api)
    client = SpdyConnection(SpdyRole.CLIENT)
    for _ in range(20):
        frames = b""
        for number in range(500):
            stream, frame = client.open({"streamtype": "data", "port": "1", "requestid": str(number)})
            frames += frame + client.reset(stream)
        await pipe.write(frames)
        pipe.reader._buffer.clear()  # type: ignore[attr-defined]
    pipe.writer.transport.abort()


async def test_a_client_that_reads_nothing_holds_the_process_up(api: ApiNode) -> None:
    """The process writes what fits into the buffers of the sockets, and no more."""
    written = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        with suppress(ConnectionError):
            while written < 400:
                writer.write(MEGABYTE)
                await writer.drain()
                written += 1

    async with listening(pour) as port:
        pipe = await switched(api)
        client = SpdyConnection(SpdyRole.CLIENT)
        for kind in ("error", "data"):
            await pipe.write(client.open({"streamtype": kind, "port": str(port), "requestid": "0"})[1])
        before = -1
        async with asyncio.timeout(DEADLINE_S):
            while written > before or not written:  # until nothing has moved for a while
                before = written
                await asyncio.sleep(1)
        assert written < 60
        pipe.writer.transport.abort()


async def test_partners_that_never_come_do_not_keep_others_waiting(api: ApiNode) -> None:
    async with listening(echo) as port, forwarding(api) as client:
        for number in range(50):
            await client.open({"streamtype": "error", "port": str(port), "requestid": f"lonely {number}"})
        data, _ = await forwarded(client, port, "whole")
        await data.write(b"served")
        assert await data.read() == b"served"
