"""The streams of a SPDY session over pipes in memory: waiting, ending, and what a peer may make us keep."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugbay.ops.tasks import background
from plugbay.wire.spdy.connection import SpdyConnection, SpdyRole
from plugbay.wire.spdy.frames import FrameKind, SpdyFault, control_frame
from plugbay.wire.spdy.session import SpdySession, SpdyStream

DEADLINE_S = 20
MEGABYTE = b"x" * 2**20


class Pipe:
    """One end of a connection in memory, which holds what the other end has not read."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue(4)
        self.other = self

    async def read(self) -> bytes:
        return await self.incoming.get()

    async def write(self, chunk: bytes) -> None:
        await self.other.incoming.put(chunk)


def pipes() -> tuple[Pipe, Pipe]:
    one, two = Pipe(), Pipe()
    one.other, two.other = two, one
    return one, two


async def served(session: SpdySession) -> None:
    with contextlib.suppress(ConnectionError):
        await session.receive()


@asynccontextmanager
async def sessions(max_streams: int = 100) -> AsyncIterator[tuple[SpdySession, SpdySession]]:
    """The sessions of a client and of a server."""
    one, two = pipes()
    client = SpdySession(one, SpdyRole.CLIENT)
    server = SpdySession(two, SpdyRole.SERVER, max_streams=max_streams)
    async with asyncio.timeout(DEADLINE_S), background(served(client), name="client"):
        async with background(served(server), name="server"):
            yield client, server


async def opened(client: SpdySession, server: SpdySession, **headers: str) -> tuple[SpdyStream, SpdyStream]:
    mine = await client.open(headers)
    theirs = await server.arrivals.get()
    assert theirs is not None
    await theirs.accept()
    assert theirs.headers == headers
    return mine, theirs


async def test_bytes_travel_both_ways_and_each_side_ends_by_itself() -> None:
    async with sessions() as (client, server):
        mine, theirs = await opened(client, server, kind="a")
        await mine.write(b"there")
        await mine.end()
        assert [await theirs.read() for _ in range(2)] == [b"there", b""]
        await theirs.write(b"back")
        await theirs.end()
        assert [await mine.read() for _ in range(2)] == [b"back", b""]
        with pytest.raises(ConnectionResetError):
            await mine.write(b"more")


async def test_what_is_not_read_holds_the_peer_up_with_all_its_streams() -> None:
    async with sessions() as (client, server):
        mine, theirs = await opened(client, server)
        other, others = await opened(client, server)
        sent = 0

        async def send() -> None:
            nonlocal sent
            for _ in range(20):
                await mine.write(MEGABYTE)
                sent += 1
            await other.write(b"late")

        async with background(send(), name="send"):
            for _ in range(1000):
                await asyncio.sleep(0)
            assert 3 <= sent <= 6
            received = 0
            while received < 20 * 2**20:
                received += len(await theirs.read())
            assert await others.read() == b"late"


async def test_a_stream_that_is_given_up_holds_nothing_up() -> None:
    async with sessions() as (client, server):
        mine, theirs = await opened(client, server)
        other, others = await opened(client, server)

        async def send() -> None:
            with contextlib.suppress(ConnectionResetError):
                for _ in range(20):
                    await mine.write(MEGABYTE)

        async with background(send(), name="send"):
            for _ in range(1000):
                await asyncio.sleep(0)
            await theirs.reset()
            with pytest.raises(ConnectionResetError):
                await theirs.read()
            await other.write(b"on")
            assert await others.read() == b"on"


async def test_a_lost_connection_resets_what_is_open_and_keeps_what_has_ended() -> None:
    one, two = pipes()
    server = SpdySession(two, SpdyRole.SERVER)
    client = SpdyConnection(SpdyRole.CLIENT)
    (ended, first), (broken, second) = client.open({}), client.open({})
    frames = client.send(ended, b"whole") + client.end(ended) + client.send(broken, b"half")
    await one.write(first + second + frames)
    await one.write(b"")
    async with asyncio.timeout(DEADLINE_S):
        await server.receive()
    whole, half = await server.arrivals.get(), await server.arrivals.get()
    assert whole is not None
    assert half is not None
    assert [await whole.read() for _ in range(2)] == [b"whole", b""]
    with pytest.raises(ConnectionResetError):
        await half.read()
    assert await server.arrivals.get() is None


async def test_streams_beyond_the_limit_are_reset_and_those_before_go_on() -> None:
    async with sessions(max_streams=3) as (client, server):
        pairs = [await opened(client, server) for _ in range(3)]
        over = await client.open({})
        with pytest.raises(ConnectionResetError):
            await over.read()
        await pairs[0][0].write(b"on")
        assert await pairs[0][1].read() == b"on"


async def test_a_peer_that_asks_and_reads_no_answers_is_given_up() -> None:
    one, two = pipes()
    server = SpdySession(two, SpdyRole.SERVER)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        receiving = tasks.create_task(_fault(server))
        pings = b"".join(control_frame(FrameKind.PING, struct.pack(">I", 2 * number + 1)) for number in range(2000))
        await one.write(pings)
        assert "takes no answers" in await receiving


async def _fault(session: SpdySession) -> str:
    with pytest.raises(SpdyFault) as caught:
        await session.receive()
    return str(caught.value)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=200), st.sampled_from(["write", "end", "reset"]))))
def test_streams_at_random_arrive_as_they_were_sent(steps: list[tuple[int, bytes, str]]) -> None:
    asyncio.run(_at_random(steps))


async def _at_random(steps: list[tuple[int, bytes, str]]) -> None:
    async with sessions() as (client, server):
        pairs = [await opened(client, server, number=str(number)) for number in range(4)]
        over = [""] * 4
        for number, chunk, step in steps:
            if over[number]:
                continue
            match step:
                case "write":
                    await pairs[number][0].write(chunk)
                case "end":
                    await pairs[number][0].end()
                    over[number] = step
                case _:
                    await pairs[number][0].reset()
                    over[number] = step
            if step == "write" and chunk:
                received = b""
                while len(received) < len(chunk):
                    received += await pairs[number][1].read()
                assert received == chunk
        for (_, theirs), how in zip(pairs, over, strict=True):
            if how == "end":
                assert await theirs.read() == b""
            elif how == "reset":
                with pytest.raises(ConnectionResetError):
                    await theirs.read()
