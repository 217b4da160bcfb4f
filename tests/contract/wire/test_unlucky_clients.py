"""Clients that stop, wait, or keep more than they use: a server's memory stays bounded, and others are answered."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import pytest

from plugbay.wire.grpc.channel import Channel
from tests.contract.rigs.grpc_process import DEADLINE_S, MIB, PATIENCE_S, GrpcProcess, grpc_process
from tests.contract.rigs.raw_http2 import (
    ACK,
    CONTINUATION,
    DATA,
    EMPTY,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    GOAWAY,
    HEADERS,
    NO_ERROR,
    PING,
    PREFACE,
    SETTINGS,
    SETTINGS_TIMEOUT,
    RawPeer,
    block,
    call_on,
    data,
    frame,
    headers,
    raw_client,
    request_block,
    settings,
    widen,
)

STREAMS: Final = range(1, 200, 2)
"""As many as a client may have open at a time."""
WINDOW: Final = 2**31 - 1
LARGE: Final = 4 * MIB - 100


@pytest.fixture(scope="module")
def server() -> Iterator[GrpcProcess]:
    with grpc_process() as server:
        yield server


# --- requests that do not end ----------------------------------------------------------------------------------------


def unfinished(stream: int, size: int) -> Iterator[bytes]:
    """A call of which the last byte is missing."""
    yield headers(stream)
    sent = b"\0" + size.to_bytes(4) + bytes(size - 1)
    for at in range(0, len(sent), 16_384):
        yield data(stream, sent[at : at + 16_384])


@asynccontextmanager
async def reading(peer: RawPeer) -> AsyncIterator[None]:
    """Read all the time, so that windows open; the peer is to be hung up on or closed at the end."""

    async def read() -> None:
        async for _ in peer.frames():
            pass

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(read())
        yield
        task.cancel()


async def test_cve_2019_9517_many_unfinished_large_requests(server: GrpcProcess) -> None:
    """A hundred streams of 4 MiB each: some are kept, and the others refused."""
    async with asyncio.timeout(DEADLINE_S), server.abused(most_mib=64), raw_client(server.path) as peer:
        async with reading(peer):
            for stream in STREAMS:
                for piece in unfinished(stream, MIB):
                    await peer.send(piece)
            await peer.send(frame(PING, 0, 0, bytes(8)))
            while not any(each.kind == PING for each in peer.seen):  # noqa: ASYNC110  # the reader tells nobody
                await asyncio.sleep(0.01)
        refused = {each.stream for each in peer.seen if each.kind == HEADERS and b"grpc-status\x018" in each.payload}
        assert 60 < len(refused) < 90
        assert not any(each.kind == GOAWAY for each in peer.seen)


async def test_cve_2019_9517_unfinished_large_requests_of_many_clients(server: GrpcProcess) -> None:
    """Clients that each stay within what one may take are hung up on when it is too much together."""
    async with asyncio.timeout(DEADLINE_S), server.abused(most_mib=170, most_cpu_s=3), AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(raw_client(server.path)) for _ in range(6)]
        floods = [
            asyncio.ensure_future(
                peer.flood(piece for stream in range(1, 14, 2) for piece in unfinished(stream, LARGE))
            )
            for peer in peers
        ]
        ended, going_on = await asyncio.wait(floods, return_when=asyncio.FIRST_COMPLETED)
        for flood in going_on:
            flood.cancel()
        for flood in ended:
            goodbye = flood.result()
            assert goodbye is not None
            assert goodbye.code == ENHANCE_YOUR_CALM


async def test_cve_2019_9517_unfinished_headers_of_many_clients(server: GrpcProcess) -> None:
    async with (
        asyncio.timeout(DEADLINE_S),
        server.abused(most_mib=64) as other,
        AsyncExitStack() as stack,
    ):
        peers = [await stack.enter_async_context(raw_client(server.path)) for _ in range(200)]
        for peer in peers:
            await peer.send(frame(HEADERS, 0, 1, request_block("/rig.Rig/Echo")))
            for _ in range(3):
                await peer.send(frame(CONTINUATION, 0, 1, bytes(16_384)))
        await server.takes_in(other)


async def test_rfc_9113_10_5_a_hundred_requests_with_large_headers(server: GrpcProcess) -> None:
    fields = request_block("/rig.Rig/Echo") + block([("x", "y" * 100)] * 400)
    async with asyncio.timeout(DEADLINE_S), server.abused(most_mib=32), raw_client(server.path) as peer:
        for stream in STREAMS:
            await peer.send(frame(HEADERS, 0, stream, fields[:16_000]))
            for at in range(16_000, len(fields), 16_000):
                await peer.send(frame(CONTINUATION, 0, stream, fields[at : at + 16_000]))
            await peer.send(frame(CONTINUATION, END_HEADERS, stream, b""))
        await peer.send(frame(PING, 0, 0, bytes(8)))
        await peer.until(PING, flags=ACK)


@pytest.mark.parametrize("at", [1, 8, 9, 10, 30], ids=lambda at: f"after {at} bytes")
async def test_a_client_that_stops_within_a_frame(server: GrpcProcess, at: int) -> None:
    async with asyncio.timeout(DEADLINE_S), server.abused(most_mib=8), raw_client(server.path) as peer:
        await peer.until(SETTINGS, flags=ACK)
        await peer.send(headers(1)[:at])
        await asyncio.sleep(0.05)


async def test_a_client_that_writes_byte_by_byte(server: GrpcProcess) -> None:
    async with asyncio.timeout(DEADLINE_S), server.abused(most_mib=8), raw_client(server.path, greets=False) as peer:
        for byte in PREFACE + settings() + call_on(1, "/rig.Rig/Echo"):
            await peer.send(bytes((byte,)))
            await asyncio.sleep(0)
        assert (await peer.until(DATA)).payload == EMPTY


async def test_cve_2019_9511_a_message_in_frames_of_a_byte(server: GrpcProcess) -> None:
    size = 20_000
    async with asyncio.timeout(DEADLINE_S), server.abused(most_mib=16), raw_client(server.path) as peer:
        await peer.send(headers(1) + b"".join(data(1, bytes((byte,))) for byte in b"\0" + size.to_bytes(4)))
        await peer.send(data(1, b"x") * (size - 1))
        await peer.send(data(1, b"x", ends=True))
        got = 0
        while got < size + 5:
            got += len((await peer.until(DATA)).payload)


# --- clients without a preface, and connections without calls ---------------------------------------------------------


async def test_rfc_9113_3_4_a_connection_without_a_preface() -> None:
    with grpc_process(PREFACE_S=0.3) as server:
        async with (
            asyncio.timeout(DEADLINE_S),
            raw_client(server.path, greets=False) as peer,
            raw_client(server.path) as other,
        ):
            goodbye = await peer.goodbye()
            assert goodbye is not None
            assert (goodbye.code, goodbye.text) == (SETTINGS_TIMEOUT, "no SETTINGS came within 0.3 s")
            await other.send(call_on(1, "/rig.Rig/Echo"))
            assert (await other.until(DATA)).payload == EMPTY


async def test_thousands_of_connections(server: GrpcProcess) -> None:
    """A newcomer is served though others hold all connections, and so is a client with a call under way."""
    async with (
        asyncio.timeout(DEADLINE_S),
        server.abused(most_mib=48, most_cpu_s=3),
        raw_client(server.path) as working,
    ):
        await working.send(call_on(1, "/rig.Rig/Hang"))
        with contextlib.ExitStack() as stack:
            for number in range(1_200):
                connection = stack.enter_context(socket.socket(socket.AF_UNIX))
                connection.setblocking(False)
                while not connects(connection, server):  # noqa: ASYNC110  # its queue is full, and tells nobody
                    await asyncio.sleep(0.01)
                if number % 2:
                    connection.send(PREFACE + settings())
                if number % 400 == 399:
                    await newcomer_is_answered(server)
        await working.send(call_on(3, "/rig.Rig/Echo"))
        assert (await working.until(DATA)).stream == 3


def connects(connection: socket.socket, server: GrpcProcess) -> bool:
    try:
        connection.connect(str(server.path))
    except BlockingIOError:
        return False
    return True


async def newcomer_is_answered(server: GrpcProcess) -> None:
    channel = Channel(server.path)
    await channel.connect(PATIENCE_S)
    assert await channel.unary("/rig.Rig/Echo", b"x", timeout_s=PATIENCE_S) == b"x"
    await channel.close()


async def test_an_idle_connection_that_has_to_go_is_told_so() -> None:
    with grpc_process(MAX_CONNECTIONS=2) as server:
        async with (
            asyncio.timeout(DEADLINE_S),
            raw_client(server.path) as working,
            raw_client(server.path) as idle,
        ):
            await working.send(call_on(1, "/rig.Rig/Hang"))
            for peer in (working, idle):
                await peer.until(SETTINGS, flags=ACK)
            await newcomer_is_answered(server)
            goodbye = await idle.goodbye()
            assert goodbye is not None
            assert (goodbye.code, goodbye.text) == (NO_ERROR, "max_idle")
            await working.send(call_on(3, "/rig.Rig/Echo"))
            assert (await working.until(DATA)).stream == 3


async def test_a_server_without_descriptors_left_serves_newcomers() -> None:
    """EMFILE at accept: connections without calls make room."""
    with grpc_process(descriptors=40) as server:
        async with asyncio.timeout(DEADLINE_S), AsyncExitStack() as stack:
            working = await stack.enter_async_context(raw_client(server.path))
            await working.send(call_on(1, "/rig.Rig/Hang"))
            await working.until(SETTINGS, flags=ACK)
            for _ in range(100):
                await stack.enter_async_context(raw_client(server.path))
            await newcomer_is_answered(server)
            await working.send(call_on(3, "/rig.Rig/Echo"))
            assert (await working.until(DATA)).stream == 3


# --- clients that do not read -----------------------------------------------------------------------------------------


async def test_cve_2019_9517_answers_to_a_client_that_reads_nothing(server: GrpcProcess) -> None:
    """Its windows are as wide as can be, so that all goes out that is answered."""
    async with (
        asyncio.timeout(DEADLINE_S),
        server.abused(most_mib=64) as other,
        raw_client(server.path, (4, WINDOW)) as peer,
    ):
        await peer.send(widen(0, WINDOW - 65_535))
        with contextlib.suppress(BlockingIOError):
            for first in range(1, 10_000, 100):
                for stream in range(first, first + 100, 2):
                    peer.send_now(call_on(stream, "/rig.Rig/Zeros", b"300000"))
                await server.takes_in(other)


async def test_cve_2019_9517_streams_to_a_client_that_reads_nothing(server: GrpcProcess) -> None:
    async with (
        asyncio.timeout(DEADLINE_S),
        server.abused(most_mib=48) as other,
        raw_client(server.path, (4, WINDOW)) as peer,
    ):
        await peer.send(widen(0, WINDOW - 65_535))
        await peer.send(b"".join(call_on(stream, "/rig.Rig/Stream", b"100000") for stream in STREAMS))
        await server.takes_in(other)


async def test_cve_2019_9517_streams_to_a_client_whose_windows_stay_shut(server: GrpcProcess) -> None:
    async with (
        asyncio.timeout(DEADLINE_S),
        server.abused(most_mib=48) as other,
        raw_client(server.path, (4, 0)) as peer,
    ):
        await peer.send(b"".join(call_on(stream, "/rig.Rig/Stream", b"100000") for stream in STREAMS))
        await peer.send(frame(PING, 0, 0, bytes(8)))
        await peer.until(PING, flags=ACK)
        await server.takes_in(other)


async def test_cve_2019_9512_pings_of_a_client_that_reads_nothing(server: GrpcProcess) -> None:
    async with (
        asyncio.timeout(DEADLINE_S),
        server.abused(most_mib=8) as other,
        raw_client(server.path) as peer,
    ):
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while True:
                peer.send_now(frame(PING, 0, 0, bytes(8)) * 100)
                await server.takes_in(other)


async def test_a_client_that_ends_its_side(server: GrpcProcess) -> None:
    """Nothing of it is left though the socket stays open."""
    with socket.socket(socket.AF_UNIX) as connection:
        async with asyncio.timeout(DEADLINE_S), server.abused(most_mib=8):
            connection.connect(str(server.path))
            connection.send(PREFACE + settings() + call_on(1, "/rig.Rig/Hang"))
            connection.shutdown(socket.SHUT_WR)


async def test_a_slow_reader_gets_all(server: GrpcProcess) -> None:
    async with asyncio.timeout(DEADLINE_S), server.abused(most_mib=16), raw_client(server.path) as peer:
        await peer.send(call_on(1, "/rig.Rig/Zeros", b"1000000"))
        got = 0
        while got < 1_000_005:
            size = len((await peer.until(DATA)).payload)
            got += size
            await peer.send(widen(0, size) + widen(1, size))
            await asyncio.sleep(0.001)
        trailers = await peer.until(HEADERS)
        assert trailers.flags & END_STREAM


async def test_thousands_of_streams_one_after_the_other(server: GrpcProcess) -> None:
    async with asyncio.timeout(DEADLINE_S), server.abused(most_mib=16), raw_client(server.path) as peer:
        for first in range(1, 6_000, 100):
            numbers = range(first, first + 100, 2)
            await peer.send(b"".join(call_on(stream, "/rig.Rig/Echo") for stream in numbers))
            ended = 0
            while ended < len(numbers):
                ended += (await peer.until(HEADERS)).flags & END_STREAM
