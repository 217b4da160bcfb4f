"""Servers that mean harm or break off: calls fail in good time and memory stays bounded, whatever comes."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.grpc.channel import Channel
from tests.contract.rigs.raw_http2 import (
    ACK,
    ANSWER_BLOCK,
    CANCEL,
    CONTINUATION,
    END_HEADERS,
    ENHANCE_YOUR_CALM,
    HEADERS,
    NO_ERROR,
    OK_BLOCK,
    PING,
    PRIORITY,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    RawPeer,
    accept,
    answer_on,
    block,
    data,
    frame,
    goaway,
    message,
    raw_listener,
    reset,
    settings,
    widen,
)
from tests.contract.rigs.wire import failure_of, path

__all__ = ["path"]

METHOD: Final = "/a.B/C"
DEADLINE_S: Final = 30
MIB: Final = 2**20
PROC: Final = Path("/proc/self")


@asynccontextmanager
async def channel_to(path: Path) -> AsyncIterator[Channel]:
    channel = Channel(path)
    try:
        yield channel
    finally:
        await channel.close()


async def greet(peer: RawPeer) -> None:
    await peer.preface()
    await peer.send(settings() + frame(SETTINGS, ACK, 0, b""))


async def with_call(peer: RawPeer) -> int:
    """The stream of the next call."""
    return (await peer.until(HEADERS)).stream


@asynccontextmanager
async def grows_at_most(mib: float) -> AsyncIterator[None]:
    """This process, with all that the test itself keeps."""
    PROC.joinpath("clear_refs").write_text("5")
    before = memory("VmRSS")
    yield
    assert (memory("VmHWM") - before) / MIB <= mib


def memory(what: str) -> int:
    lines = PROC.joinpath("status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


# --- floods ----------------------------------------------------------------------------------------------------------

BEGUN: Final = frame(HEADERS, END_HEADERS, 1, ANSWER_BLOCK)
FLOODS: Final = {
    "CVE-2019-9512 PING": frame(PING, 0, 0, bytes(8)),
    "CVE-2019-9512 PING with ACK": frame(PING, ACK, 0, bytes(8)),
    "CVE-2019-9515 SETTINGS": settings(),
    "CVE-2019-9515 SETTINGS with ACK": frame(SETTINGS, ACK, 0, b""),
    "CVE-2019-9513 PRIORITY": frame(PRIORITY, 0, 1, b"\0\0\0\3\x10"),
    "CVE-2019-9518 DATA without content": data(1, b""),
    "RFC 9113 10.5 WINDOW_UPDATE": widen(0, 1),
    "RFC 9113 10.5 WINDOW_UPDATE of a stream": widen(1, 1),
    "RFC 9113 10.5 GOAWAY": goaway(2**31 - 1),
    "RFC 9113 10.5 frames that nobody knows": frame(0xFA, 0, 1, b"x" * 100),
}
ENDLESS: Final = {
    "RFC 9113 8.1 interim responses": (b"", frame(HEADERS, END_HEADERS, 1, block([(":status", "103")]))),
    "RFC 9113 10.5.1 headers of 16 MiB": (frame(HEADERS, 0, 1, b"\0"), frame(CONTINUATION, 0, 1, bytes(16_384))),
    "CVE-2024-27316 CONTINUATION without content": (frame(HEADERS, 0, 1, b"\0"), frame(CONTINUATION, 0, 1, b"")),
    "CVE-2016-1544 HPACK bomb": (b"", frame(HEADERS, END_HEADERS, 1, ANSWER_BLOCK + b"\x90" * 10_000)),
    **{name: (BEGUN, sent) for name, sent in FLOODS.items()},
}


@pytest.mark.parametrize(("first", "sent"), [pytest.param(*each, id=name) for name, each in ENDLESS.items()])
async def test_a_flood_of_a_server_ends_the_connection(path: Path, first: bytes, sent: bytes) -> None:
    most = 16 * MIB // 16_384 if len(sent) > 10_000 else 20_000
    async with (
        asyncio.timeout(DEADLINE_S),
        grows_at_most(24),
        channel_to(path) as channel,
        asyncio.TaskGroup() as tasks,
    ):
        with raw_listener(path) as listener:
            call = tasks.create_task(failure_of(channel.unary(METHOD, b"")))
            peer = await accept(listener)
            await greet(peer)
            await with_call(peer)
            goodbye = await peer.flood(itertools.chain([first], itertools.repeat(sent, most)))
            assert (await call).code is RpcCode.UNAVAILABLE
            assert goodbye is not None
            assert goodbye.code == ENHANCE_YOUR_CALM, goodbye.text
            peer.close()
            again = tasks.create_task(channel.unary(METHOD, b""))
            other = await accept(listener)
            await greet(other)
            await other.send(answer_on(await with_call(other), b"well"))
            assert await again == b"well"
            await channel.close()
            other.close()


async def test_cve_2019_9517_a_stream_that_is_read_slowly_is_held_back_by_its_window(path: Path) -> None:
    piece = data(1, message(bytes(16_000)))
    async with asyncio.timeout(DEADLINE_S), channel_to(path) as channel, asyncio.TaskGroup() as tasks:
        with raw_listener(path) as listener:
            messages = channel.stream(METHOD, b"")
            first = tasks.create_task(anext(messages))
            peer = await accept(listener)
            await peer.preface()
            window = next(
                int.from_bytes(each.payload[at + 2 : at + 6])
                for each in [await peer.until(SETTINGS)]
                for at in range(0, len(each.payload), 6)
                if int.from_bytes(each.payload[at : at + 2]) == 4
            )
            await peer.send(settings() + frame(SETTINGS, ACK, 0, b""))
            await with_call(peer)
            async with grows_at_most(8):
                await peer.send(BEGUN + piece * (window // len(piece)))
                await first
                await peer.send(piece * 3)  # more than the window
                assert (await peer.until(RST_STREAM)).code == 3
            with pytest.raises(RpcFailed):  # some of it is still read
                async for _ in messages:
                    pass
            peer.close()


# --- answers that break off ------------------------------------------------------------------------------------------

GREETING: Final = settings((3, 10)) + frame(SETTINGS, ACK, 0, b"")
ANSWER: Final = GREETING + answer_on(1, b"answer")
CUTS: Final = range(len(ANSWER))


async def begin(peer: RawPeer, at: int, *, reads: bool = True) -> None:
    """Send so many bytes of `ANSWER`, none of the call's before there is one."""
    await peer.send(ANSWER[: min(at, len(GREETING))])
    if at < len(GREETING):
        return
    if reads:
        await peer.preface()
        await with_call(peer)
    else:
        await peer.until_waits(b"request")
    await peer.send(ANSWER[len(GREETING) : at])


async def cut(path: Path, at: int, *, reads: bool) -> RpcFailed | bytes:
    """What a call comes to whose server hangs up after so many bytes of `ANSWER`."""
    async with channel_to(path) as channel, asyncio.TaskGroup() as tasks:
        with raw_listener(path) as listener:
            call = tasks.create_task(outcome(channel))
            peer = await accept(listener)
            await begin(peer, at, reads=reads)
            peer.close()
        path.unlink()
        return await call


async def outcome(channel: Channel) -> RpcFailed | bytes:
    try:
        return await channel.unary(METHOD, b"request")
    except RpcFailed as failure:
        return failure


@pytest.mark.parametrize("reads", [True, False], ids=["reads", "reads nothing"])
async def test_a_server_that_hangs_up_after_each_byte_of_its_answer(path: Path, reads: bool) -> None:
    """Never does a call hang, or succeed too soon; the texts are Go's."""
    async with asyncio.timeout(DEADLINE_S):
        for at in CUTS:
            came = await cut(path, at, reads=reads)
            assert isinstance(came, RpcFailed), at
            assert came.code is RpcCode.UNAVAILABLE, (at, came)
            assert came.detail.startswith(
                ("error reading from server: ", 'connection error: desc = "error reading server preface: ')
            ), (at, came)
            assert came.detail.rstrip('"').endswith(("EOF", "connection reset by peer")), (at, came)
        assert await cut(path, len(ANSWER), reads=reads) == b"answer"


async def test_an_answer_in_two_pieces_cut_anywhere(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S):
        for at in CUTS:
            async with channel_to(path) as channel, asyncio.TaskGroup() as tasks:
                with raw_listener(path) as listener:
                    call = tasks.create_task(channel.unary(METHOD, b"request"))
                    peer = await accept(listener)
                    await begin(peer, at)
                    for _ in range(3):
                        await asyncio.sleep(0)
                    if at < len(GREETING):
                        await peer.send(ANSWER[at : len(GREETING)])
                        await peer.preface()
                        await with_call(peer)
                    await peer.send(ANSWER[max(at, len(GREETING)) :])
                    assert await call == b"answer"
                    peer.close()
                path.unlink()


async def test_a_server_that_stops_after_each_byte_of_its_answer_meets_the_deadline(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        with raw_listener(path) as listener:
            calls = []
            for at in CUTS[::3]:
                channel = Channel(path)
                call = tasks.create_task(failure_of(channel.unary(METHOD, b"request", timeout_s=1.0)))
                peer = await accept(listener)
                await begin(peer, at)
                calls.append((call, channel, peer))
            for call, channel, peer in calls:
                assert (await call).code is RpcCode.DEADLINE_EXCEEDED
                await channel.close()
                peer.close()


# --- GOAWAY, RST_STREAM and calls that are made again -----------------------------------------------------------------

REFUSALS: Final = {
    "RST_STREAM REFUSED_STREAM": lambda stream: reset(stream, REFUSED_STREAM),
    "GOAWAY below the stream": lambda stream: goaway(stream - 2 if stream > 1 else 0),
}


@pytest.mark.parametrize("refusal", [pytest.param(each, id=name) for name, each in REFUSALS.items()])
@pytest.mark.parametrize("times", [1, 2])
async def test_rfc_9113_8_7_a_call_that_was_not_processed_is_made_again_once(
    path: Path, refusal: Callable[[int], bytes], times: int
) -> None:
    seen = 0

    async def serve(peer: RawPeer) -> None:
        nonlocal seen
        await greet(peer)
        async for each in peer.frames():
            if each.kind == HEADERS:
                seen += 1
                await peer.send(refusal(each.stream) if seen <= times else answer_on(each.stream, b"at last"))

    async with asyncio.timeout(DEADLINE_S), raw_server(path, serve), channel_to(path) as channel:
        if times == 1:
            assert await channel.unary(METHOD, b"") == b"at last"
        else:
            assert (await failure_of(channel.unary(METHOD, b""))).code is RpcCode.UNAVAILABLE
        assert seen == 2


POINTS: Final = {
    "before the headers": b"",
    "after the headers": BEGUN,
    "within a message": BEGUN + data(1, message(b"answer")[:7]),
    "after a message": BEGUN + data(1, message(b"answer")),
}


@pytest.mark.parametrize("before", [pytest.param(each, id=name) for name, each in POINTS.items()])
async def test_a_reset_at_each_point_of_a_call(path: Path, before: bytes) -> None:
    seen = 0

    async def serve(peer: RawPeer) -> None:
        nonlocal seen
        await greet(peer)
        async for each in peer.frames():
            if each.kind == HEADERS:
                seen += 1
                await peer.send(before + reset(each.stream, CANCEL))

    async with asyncio.timeout(DEADLINE_S), raw_server(path, serve), channel_to(path) as channel:
        assert str(await failure_of(channel.unary(METHOD, b""))) == (
            "rpc error: code = Canceled desc = stream terminated by RST_STREAM with error code: CANCEL"
        )
        assert seen == 1


@pytest.mark.parametrize("before", [pytest.param(each, id=name) for name, each in POINTS.items()])
async def test_a_call_goes_on_after_a_goaway_that_counts_it_in(path: Path, before: bytes) -> None:
    rest = answer_on(1, b"answer")[len(before) :] if before != POINTS["within a message"] else None

    async def serve(peer: RawPeer) -> None:
        await greet(peer)
        stream = await with_call(peer)
        if rest is None:
            await peer.send(before + goaway(stream) + data(1, message(b"answer")[7:]))
            await peer.send(frame(HEADERS, END_HEADERS | 1, 1, OK_BLOCK))
        else:
            await peer.send(before + goaway(stream) + rest)
        assert await peer.goodbye() is None or peer.seen[-1].code == NO_ERROR

    async with asyncio.timeout(DEADLINE_S), raw_server(path, serve), channel_to(path) as channel:
        assert await channel.unary(METHOD, b"") == b"answer"
        assert not channel.is_connected


@pytest.mark.parametrize("before", [pytest.param(each, id=name) for name, each in POINTS.items()])
async def test_a_goaway_and_a_hang_up_at_each_point_of_a_call(path: Path, before: bytes) -> None:
    async def serve(peer: RawPeer) -> None:
        await greet(peer)
        await peer.send(before + goaway(await with_call(peer), ENHANCE_YOUR_CALM))

    async with asyncio.timeout(DEADLINE_S), raw_server(path, serve), channel_to(path) as channel:
        failure = await failure_of(channel.unary(METHOD, b""))
        assert failure.code is RpcCode.UNAVAILABLE
        assert "received prior goaway: code: ENHANCE_YOUR_CALM" in failure.detail


async def test_rfc_9113_6_8_a_goodbye_is_read_though_the_server_is_gone_when_a_call_is_written(path: Path) -> None:
    """A server that ends at the moment of a call: asyncio would drop what it has said before, and the call fail."""
    async with asyncio.timeout(DEADLINE_S), channel_to(path) as channel, asyncio.TaskGroup() as tasks:
        with raw_listener(path) as listener:
            connecting = tasks.create_task(channel.connect(DEADLINE_S))
            first = await accept(listener)
            await greet(first)
            await first.until(SETTINGS, flags=ACK)
            await connecting
            first.send_now(goaway(0))
            first.close()
            answering = tasks.create_task(answer_one(listener))
            assert await channel.unary(METHOD, b"") == b"answer"
            (await answering).close()


async def answer_one(listener: socket.socket) -> RawPeer:
    peer = await accept(listener)
    await greet(peer)
    await peer.send(answer_on(await with_call(peer), b"answer"))
    return peer


async def test_a_stream_that_is_refused_after_a_message_is_not_made_again(path: Path) -> None:
    seen = 0

    async def serve(peer: RawPeer) -> None:
        nonlocal seen
        await greet(peer)
        async for each in peer.frames():
            if each.kind == HEADERS:
                seen += 1
                await peer.send(BEGUN + data(1, message(b"one")) + reset(each.stream, REFUSED_STREAM))

    async with asyncio.timeout(DEADLINE_S), raw_server(path, serve), channel_to(path) as channel:
        async with aclosing(channel.stream(METHOD, b"")) as messages:
            assert await anext(messages) == b"one"
            assert (await failure_of(anext(messages))).code is RpcCode.UNAVAILABLE
        assert seen == 1


@asynccontextmanager
async def raw_server(path: Path, serve: Callable[[RawPeer], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """A server that does ``serve`` with each client, and then hangs up."""

    async def one(peer: RawPeer) -> None:
        try:
            await serve(peer)
        finally:
            peer.close()

    with raw_listener(path) as listener:
        async with asyncio.TaskGroup() as tasks:

            async def accept_all() -> None:
                while True:
                    tasks.create_task(one(await accept(listener)))

            accepting = tasks.create_task(accept_all())
            yield
            accepting.cancel()
