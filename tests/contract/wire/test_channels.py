"""A client's connection: calls that wait for it together, and all the moments at which it may end."""

from __future__ import annotations

import asyncio
import gc
import math
import random
import socket
import weakref
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import plugbay.wire.grpc.channel
from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import ServerStream, Service, Unary
from plugbay.wire.http2.events import HeadersReceived, StreamReset
from plugbay.wire.http2.frames import SETTINGS
from plugbay.wire.http2.frames import frame as http2_frame
from plugbay.wire.http2.header_blocks import encode
from tests.contract.rigs.scripted_server import DEADLINE_S, scripted_server
from tests.contract.rigs.wire import failure_of, path

__all__ = ["path"]

METHOD = "/a.B/C"
CLOSING = (RpcCode.CANCELLED, "grpc: the client connection is closing")
MAX_CONCURRENT_STREAMS = 3


async def echo(request: bytes) -> bytes:
    return request


ECHO = Service("a.B", {"C": Unary(echo)})


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def settings(most_streams: int) -> bytes:
    return http2_frame(SETTINGS, 0, 0, MAX_CONCURRENT_STREAMS.to_bytes(2) + most_streams.to_bytes(4))


def of(failure: RpcFailed) -> tuple[RpcCode, str]:
    return failure.code, failure.detail


# --- many calls on one connection -----------------------------------------------------------------------------------


async def test_all_calls_that_wait_for_a_stream_go_on_when_the_server_takes_more(path: Path) -> None:
    async with scripted_server(path) as server, asyncio.TaskGroup() as tasks:
        channel = Channel(path)
        calls = [tasks.create_task(channel.unary(METHOD, b"request")) for _ in range(5)]
        link = await server.accept(first=settings(1))
        streams = [await link.until_call()]
        link.writer.write(settings(100))
        streams += [await link.until_call() for _ in calls[1:]]
        for stream in streams:
            link.answer(stream, b"answer")
        assert await asyncio.gather(*calls) == [b"answer"] * len(calls)
        await channel.close()


@pytest.mark.parametrize("seed", range(20))
async def test_calls_that_wait_for_a_stream_go_on_though_others_give_up(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    async with serve_grpc(path, [ECHO], max_calls=2), asyncio.timeout(DEADLINE_S):
        channel = Channel(path)
        await channel.connect(DEADLINE_S)
        async with asyncio.TaskGroup() as tasks:
            calls = [tasks.create_task(channel.unary(METHOD, b"%d" % number)) for number in range(20)]
            for call in chance.sample(calls, 8):
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
                call.cancel()
        assert all(call.cancelled() or call.result() == b"%d" % number for number, call in enumerate(calls))
        await channel.close()


async def test_answer_before_the_request_is_sent_leaves_no_stream_open(path: Path) -> None:
    """RFC 9113 section 8.1: the client need not send the rest."""
    async with scripted_server(path) as server, asyncio.TaskGroup() as tasks:
        channel = Channel(path)
        call = tasks.create_task(failure_of(channel.unary(METHOD, bytes(1_000_000))))
        link = await server.accept()
        stream = (await link.until(HeadersReceived)).stream
        refusal = [(b":status", b"200"), (b"content-type", b"application/grpc"), (b"grpc-status", b"8")]
        link.http2.send_headers(stream, encode(refusal), ends=True)
        link.send()
        assert (await call).code is RpcCode.RESOURCE_EXHAUSTED
        assert (await link.until(StreamReset)).stream == stream
        await channel.close()


async def test_connection_without_stream_numbers_left_is_replaced(path: Path) -> None:
    async with serve_grpc(path, [ECHO]):
        channel = Channel(path)
        assert await channel.unary(METHOD, b"first") == b"first"
        link = channel._link
        assert link is not None
        link.http2._streams.next_own = 2**31 - 1
        assert await channel.unary(METHOD, b"last") == b"last"
        async with asyncio.timeout(DEADLINE_S):
            assert await channel.unary(METHOD, b"next") == b"next"
            await link.lost
        await channel.close()


# --- the way to a connection ----------------------------------------------------------------------------------------


async def test_calls_that_wait_for_one_connection_fail_together(path: Path) -> None:
    """They do not dial one after the other, each for as long as a server may take."""
    async with scripted_server(path) as server, asyncio.TaskGroup() as tasks:
        channel = Channel(path)
        calls = [tasks.create_task(failure_of(channel.unary(METHOD, b""))) for _ in range(3)]
        link = await server.accept(first=b"")
        link.writer.close()
        async with asyncio.timeout(DEADLINE_S):
            failures = [of(await call) for call in calls]
        assert {code for code, _ in failures} == {RpcCode.UNAVAILABLE}
        call = tasks.create_task(failure_of(channel.unary(METHOD, b"")))  # a later one dials again
        (await server.accept(first=b"")).writer.close()
        await call
        await channel.close()


async def test_close_ends_a_connection_whose_server_has_not_greeted(path: Path) -> None:
    async with scripted_server(path) as server, asyncio.TaskGroup() as tasks:
        channel = Channel(path)
        calls = [tasks.create_task(failure_of(channel.unary(METHOD, b""))) for _ in range(3)]
        link = await server.accept(first=b"")
        async with asyncio.timeout(DEADLINE_S):
            await channel.close()
            await link.until_end()
            assert [of(await call) for call in calls] == [CLOSING] * 3


@pytest.mark.parametrize("steps", range(8))
async def test_close_at_any_moment_of_the_first_call_leaves_no_connection(path: Path, steps: int) -> None:
    async with scripted_server(path) as server, asyncio.TaskGroup() as tasks:
        channel = Channel(path)
        call = tasks.create_task(failure_of(channel.unary(METHOD, b"")))
        for _ in range(steps):
            await asyncio.sleep(0)
        async with asyncio.timeout(DEADLINE_S):
            await channel.close()
            assert of(await call) == CLOSING
        assert not channel._links
        del server


@pytest.mark.parametrize("steps", range(12))
async def test_call_cancelled_at_any_moment_is_no_harm_to_others(path: Path, steps: int) -> None:
    async with serve_grpc(path, [ECHO], max_calls=1), asyncio.timeout(DEADLINE_S):
        channel = Channel(path)
        async with asyncio.TaskGroup() as tasks:
            cancelled, *others = [tasks.create_task(channel.unary(METHOD, b"%d" % number)) for number in range(4)]
            for _ in range(steps):
                await asyncio.sleep(0)
            cancelled.cancel()
        assert [call.result() for call in others] == [b"1", b"2", b"3"]
        assert cancelled.cancelled() or cancelled.result() == b"0"
        assert await channel.unary(METHOD, b"later") == b"later"
        await channel.close()
        assert not channel._links


@contextmanager
def full_backlog(path: Path) -> Iterator[None]:
    with ExitStack() as waiting:
        while True:
            other = waiting.enter_context(socket.socket(socket.AF_UNIX))
            other.setblocking(False)
            try:
                other.connect(str(path))
            except BlockingIOError:
                break
        yield


async def test_full_backlog_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugbay.wire.grpc.channel, "DIAL_S", 0.1)
    async with scripted_server(path, backlog=0), asyncio.timeout(DEADLINE_S):
        channel = Channel(path)
        with full_backlog(path):
            failure = await failure_of(channel.unary(METHOD, b""))
        await channel.close()
    why = f"dial unix {path}: connect: resource temporarily unavailable"
    text = f'connection error: desc = "transport: Error while dialing: {why}"'
    assert of(failure) == (RpcCode.UNAVAILABLE, text)


async def test_close_does_not_wait_for_a_full_backlog(path: Path) -> None:
    async with scripted_server(path, backlog=0), asyncio.TaskGroup() as tasks:
        channel = Channel(path)
        with full_backlog(path):
            calls = [tasks.create_task(failure_of(channel.unary(METHOD, b""))) for _ in range(3)]
            await asyncio.sleep(0.05)
            async with asyncio.timeout(5):
                await channel.close()
                assert [of(await call) for call in calls] == [CLOSING] * 3


async def test_closed_channel_does_not_try_to_connect(path: Path) -> None:
    channel = Channel(path)
    async with asyncio.timeout(DEADLINE_S):
        connecting = asyncio.ensure_future(failure_of(channel.connect(1000)))
        await asyncio.sleep(0.05)
        await channel.close()
        assert of(await connecting) == CLOSING


async def test_loss_is_told_though_a_call_has_connected_again_meanwhile(path: Path) -> None:
    async with scripted_server(path) as server, asyncio.TaskGroup() as tasks, asyncio.timeout(DEADLINE_S):
        channel = Channel(path)
        connecting = tasks.create_task(channel.connect(DEADLINE_S))
        first = await server.accept()
        await connecting
        current = channel._link
        assert current is not None
        losing = tasks.create_task(channel.until_lost())
        await asyncio.sleep(0)
        # What the steps of a dial and those of the waiting task may come to: both happen before the task runs again.
        first.writer.close()
        await current.leaving
        again = tasks.create_task(channel.connect(DEADLINE_S))
        await server.accept()
        await again
        await losing
        await channel.close()


# --- deadlines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, -math.inf])
async def test_call_whose_time_has_passed_is_not_made(path: Path, timeout_s: float) -> None:
    async with scripted_server(path) as server, asyncio.TaskGroup() as tasks:
        channel = Channel(path)
        connecting = tasks.create_task(channel.connect(DEADLINE_S))
        link = await server.accept()
        await connecting
        failure = await failure_of(channel.unary(METHOD, b"", timeout_s=timeout_s))
        assert of(failure) == (RpcCode.DEADLINE_EXCEEDED, "context deadline exceeded")
        await channel.close()
        link.http2.receive(await link.until_end())
        assert link.http2._streams.last_of_peer == 0


@pytest.mark.parametrize("timeout_s", [1e-12, 1e12, 1e300, math.inf])
async def test_timeouts_of_any_size(path: Path, timeout_s: float) -> None:
    async with serve_grpc(path, [ECHO]):
        channel = Channel(path)
        await channel.connect(DEADLINE_S)
        if timeout_s < 1:
            assert (await failure_of(channel.unary(METHOD, b"x", timeout_s=timeout_s))).code is (
                RpcCode.DEADLINE_EXCEEDED
            )
        else:
            assert await channel.unary(METHOD, b"x", timeout_s=timeout_s) == b"x"
        await channel.close()


async def test_timeout_that_is_not_a_number(path: Path) -> None:
    with pytest.raises(ValueError, match="nan"):
        await Channel(path).unary(METHOD, b"x", timeout_s=math.nan)


# --- what goes only with the garbage ---------------------------------------------------------------------------------


async def test_what_has_ended_is_no_garbage(path: Path, no_collector: None) -> None:
    async def refuse(_: bytes) -> bytes:
        raise RpcFailed(RpcCode.ABORTED, "no")

    service = Service("a.B", {"C": Unary(refuse)})
    server, channel = weakref.ref(refuse), Channel(path)
    async with serve_grpc(path, [service]):
        await failure_of(channel.unary(METHOD, b"x"))
        assert channel._link is not None
        link, http2 = weakref.ref(channel._link), weakref.ref(channel._link.http2)
        await failure_of(channel.unary(METHOD, b"x", timeout_s=0))
        await channel.close()
    await failure_of(channel.unary(METHOD, b"x"))
    del channel, service, refuse
    await asyncio.sleep(0.05)
    assert (link(), http2(), server()) == (None, None, None)


@pytest.mark.parametrize("size", [1, 100_000], ids=["small", "held back by windows"])
async def test_stream_that_was_given_up_is_no_garbage(path: Path, no_collector: None, size: int) -> None:
    async def count(_: bytes, __: Metadata) -> AsyncGenerator[bytes, None]:
        while True:
            yield bytes(size)
            await asyncio.sleep(0)

    service = Service("a.B", {"C": ServerStream(count)})
    method = weakref.ref(count)
    async with serve_grpc(path, [service]):
        channel = Channel(path)
        messages = channel.stream(METHOD, b"")
        assert await anext(messages) == bytes(size)
        await asyncio.sleep(0.05)
        await messages.aclose()
        await channel.close()
    del service, count
    await asyncio.sleep(0.05)
    assert method() is None
