"""Calls that are cancelled, time out, are left lying, or made from two processes: nothing of them stays."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import grpc
import pytest

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import ServerStream, Service, Unary
from plugbay.wire.grpc.timeouts import decode_timeout
from tests.contract.rigs.grpcio import open_channel, serve_grpcio
from tests.contract.rigs.raw_http2 import ACK, HEADERS, SETTINGS, accept, frame, raw_listener, settings
from tests.contract.rigs.wire import DEADLINE_S, failure_of, path

__all__ = ["path"]

STEPS: Final = range(31)
"""More steps of the loop than a call takes."""
BINARY: Final = bytes(range(256))


class Methods:
    """Attributes: ``running``: how many methods are; ``seen``: the metadata of streams."""

    def __init__(self) -> None:
        self.running = 0
        self.seen: list[Metadata] = []
        self.cleans_up_s = 0.0

    async def echo(self, request: bytes) -> bytes:
        self.running += 1
        try:
            await asyncio.sleep(0)
            return request
        finally:
            self.running -= 1

    async def hang(self, request: bytes) -> bytes:
        self.running += 1
        try:
            await asyncio.Event().wait()
            return request
        finally:
            await asyncio.sleep(self.cleans_up_s)
            self.running -= 1

    async def fail(self, request: bytes) -> bytes:
        raise RpcFailed(RpcCode[request.decode()], "größer als 100 %")

    async def cancel(self, _: bytes) -> bytes:
        raise asyncio.CancelledError

    async def numbers(self, request: bytes, metadata: Metadata) -> AsyncGenerator[bytes, None]:
        self.running += 1
        self.seen.append(metadata)
        try:
            for number in range(int(request)):
                yield b"%d" % number
                await asyncio.sleep(0)
        finally:
            self.running -= 1

    @property
    def service(self) -> Service:
        unary = {each.__name__: Unary(each) for each in (self.echo, self.hang, self.fail, self.cancel)}
        return Service("a.B", {**unary, "numbers": ServerStream(self.numbers)})

    async def until_over(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while self.running:  # noqa: ASYNC110  # methods tell nobody
                await asyncio.sleep(0.001)


@asynccontextmanager
async def both(path: Path, *, max_calls: int = 100) -> AsyncIterator[tuple[Methods, Channel]]:
    methods, channel = Methods(), Channel(path)
    async with asyncio.timeout(DEADLINE_S), serve_grpc(path, [methods.service], max_calls=max_calls):
        try:
            yield methods, channel
        finally:
            await channel.close()


def sockets_open() -> set[str]:
    """The sockets of this process, each with a number of its own."""
    targets = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of this very look
            targets.add(os.readlink(f"/proc/self/fd/{number}"))
    return {target for target in targets if target.startswith("socket:")}


# --- cancelled -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_connected", [False, True], ids=["dials", "connected"])
@pytest.mark.parametrize("kind", ["unary", "hanging", "stream", "waiting"])
async def test_a_call_cancelled_after_each_step_leaves_nothing(path: Path, kind: str, is_connected: bool) -> None:
    async def read(channel: Channel) -> bytes | None:
        async with aclosing(channel.stream("/a.B/numbers", b"1000")) as numbers:
            async for _ in numbers:
                pass
        return None

    before = sockets_open()
    for steps in STEPS:
        async with both(path, max_calls=1 if kind == "waiting" else 100) as (methods, channel):
            if is_connected or kind == "waiting":
                await channel.connect(DEADLINE_S)
            tasks = asyncio.all_tasks()
            holding = asyncio.ensure_future(channel.unary("/a.B/hang", b"")) if kind == "waiting" else None
            if holding:
                await asyncio.sleep(0.001)
            call: asyncio.Future[bytes | None]
            match kind:
                case "unary" | "waiting":
                    call = asyncio.ensure_future(channel.unary("/a.B/echo", b"x"))
                case "hanging":
                    call = asyncio.ensure_future(channel.unary("/a.B/hang", b""))
                case _:
                    call = asyncio.ensure_future(read(channel))
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            assert call.cancelled() or call.result() in {b"x", None}
            if holding:
                holding.cancel()
                await asyncio.wait([holding])
            assert await channel.unary("/a.B/echo", b"after") == b"after"
            await methods.until_over()
            link = channel._link
            assert link is not None
            assert (link.calls, link.http2.streams, len(link._waiting)) == ({}, 0, 0)
            while asyncio.all_tasks() - tasks:  # noqa: ASYNC110  # the server's are just ending
                await asyncio.sleep(0)
        assert sockets_open() <= before  # other tests' garbage may go meanwhile


# --- deadlines -------------------------------------------------------------------------------------------------------


async def test_the_deadline_is_sent_as_what_is_left_after_dialing(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        with raw_listener(path) as listener:
            channel = Channel(path)
            call = tasks.create_task(failure_of(channel.unary("/a.B/c", b"", timeout_s=10.0)))
            peer = await accept(listener)
            await peer.preface()
            await asyncio.sleep(0.3)
            await peer.send(settings() + frame(SETTINGS, ACK, 0, b""))
            block = (await peer.until(HEADERS)).payload
            assert 0 < timeout_in(block) <= 9.7
            await channel.close()
            assert (await call).code is RpcCode.CANCELLED
            peer.close()


def timeout_in(block: bytes) -> float:
    """Of headers as literals, which end with it."""
    _, _, value = block.partition(b"grpc-timeout")
    return decode_timeout(value[1 : 1 + value[0]])


async def test_the_deadline_is_kept_while_a_server_does_not_greet(path: Path) -> None:
    with raw_listener(path):
        channel = Channel(path)
        failure = await failure_of(channel.unary("/a.B/c", b"", timeout_s=0.05))
        await channel.close()
    assert failure.code is RpcCode.DEADLINE_EXCEEDED


async def test_the_deadline_is_kept_while_the_server_takes_no_more_calls(path: Path) -> None:
    async with both(path, max_calls=1) as (methods, channel):
        await channel.connect(DEADLINE_S)
        holding = asyncio.ensure_future(channel.unary("/a.B/hang", b""))
        await asyncio.sleep(0.01)
        failure = await failure_of(channel.unary("/a.B/echo", b"", timeout_s=0.05))
        assert (failure.code, failure.detail) == (RpcCode.DEADLINE_EXCEEDED, "context deadline exceeded")
        holding.cancel()
        await asyncio.wait([holding])
        await methods.until_over()


async def test_the_deadline_ends_the_method_of_the_server(path: Path) -> None:
    async with both(path) as (methods, channel):
        failure = await failure_of(channel.unary("/a.B/hang", b"", timeout_s=0.05))
        assert failure.code is RpcCode.DEADLINE_EXCEEDED
        await methods.until_over()


async def test_a_method_is_cancelled_once_though_the_client_resets_at_the_deadline(path: Path) -> None:
    """What a method does on its way out is not broken off."""
    async with both(path) as (methods, channel):
        methods.cleans_up_s = 0.1
        for _ in range(5):
            assert (await failure_of(channel.unary("/a.B/hang", b"", timeout_s=0.05))).code is RpcCode.DEADLINE_EXCEEDED
        await methods.until_over()


async def test_the_deadline_of_grpcio_ends_the_method(path: Path) -> None:
    async with both(path) as (methods, _):
        other = open_channel(path)
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = other.unary_unary("/a.B/hang")
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call(b"", timeout=0.1)
        assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await methods.until_over()
        await other.close()


# --- many, and left lying --------------------------------------------------------------------------------------------


async def test_more_calls_at_a_time_than_the_server_takes(path: Path) -> None:
    async with both(path, max_calls=7) as (methods, channel), asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(channel.unary("/a.B/echo", b"%d" % number)) for number in range(300)]
        most = 0
        while not all(call.done() for call in calls):
            most = max(most, methods.running)
            await asyncio.sleep(0)
        assert [int(call.result()) for call in calls] == list(range(300))
        assert 0 < most <= 7


async def test_a_stream_that_is_left_lying_ends(path: Path) -> None:
    async with both(path) as (methods, channel):
        stream = channel.stream("/a.B/numbers", b"1000000")
        assert await anext(stream) == b"0"
        gone = weakref.ref(stream)
        del stream
        gc.collect()
        await methods.until_over()
        assert gone() is None


async def test_until_lost_and_connect_to_a_server_that_starts_late(path: Path) -> None:
    channel = Channel(path)
    connecting = asyncio.ensure_future(channel.connect(DEADLINE_S))
    await asyncio.sleep(0.05)
    async with serve_grpc(path, [Methods().service]):
        await connecting
        assert channel.is_connected
        losing = asyncio.ensure_future(channel.until_lost())
        await asyncio.sleep(0.01)
        assert not losing.done()
    await asyncio.wait_for(losing, DEADLINE_S)
    async with serve_grpc(path, [Methods().service]):
        assert await channel.unary("/a.B/echo", b"again", timeout_s=DEADLINE_S) == b"again"
    await channel.close()


# --- what is carried -------------------------------------------------------------------------------------------------

CARRIED: Final[dict[str, str | bytes]] = {"kind": "gopher", "bytes-bin": BINARY, "none-bin": b"", "empty": ""}


async def test_metadata_of_ours(path: Path) -> None:
    async with both(path) as (methods, channel):
        async for _ in channel.stream("/a.B/numbers", b"1", metadata=CARRIED):
            pass
    assert methods.seen == [CARRIED]


async def test_metadata_of_grpcio(path: Path) -> None:
    async with both(path) as (methods, _):
        other = open_channel(path)
        call: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = other.unary_stream("/a.B/numbers")
        assert [each async for each in call(b"2", metadata=tuple(CARRIED.items()))] == [b"0", b"1"]
        await other.close()
    (seen,) = methods.seen
    assert {name: seen[name] for name in CARRIED} == CARRIED


async def test_metadata_to_grpcio(path: Path) -> None:
    seen: dict[str, str | bytes] = {}

    async def answer(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        seen.update(context.invocation_metadata() or ())
        return request

    handlers = grpc.method_handlers_generic_handler("a.B", {"c": grpc.unary_unary_rpc_method_handler(answer)})
    async with asyncio.timeout(DEADLINE_S), serve_grpcio(path, [handlers]):
        channel = Channel(path)
        assert await channel.unary("/a.B/c", b"x", metadata=CARRIED) == b"x"
        await channel.close()
    assert {name: seen[name] for name in CARRIED} == CARRIED


@pytest.mark.parametrize("code", list(RpcCode)[1:], ids=lambda code: code.name)
async def test_a_status_reaches_both_clients(path: Path, code: RpcCode) -> None:
    async with both(path) as (_, channel):
        failure = await failure_of(channel.unary("/a.B/fail", code.name.encode()))
        assert (failure.code, failure.detail) == (code, "größer als 100 %")
        other = open_channel(path)
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = other.unary_unary("/a.B/fail")
        with pytest.raises(grpc.aio.AioRpcError) as theirs:
            await call(code.name.encode())
        assert (theirs.value.code().name, theirs.value.details()) == (code.name, "größer als 100 %")
        await other.close()


async def test_a_method_that_raises_cancelled_error_fails_its_call_only(path: Path) -> None:
    async with both(path) as (_, channel):
        failure = await failure_of(channel.unary("/a.B/cancel", b""))
        assert (failure.code, failure.detail) == (RpcCode.CANCELLED, "context canceled")
        assert await channel.unary("/a.B/echo", b"x") == b"x"


# --- ends and processes ----------------------------------------------------------------------------------------------


async def test_the_end_waits_for_what_a_method_does_on_its_way_out(path: Path) -> None:
    methods, channel = Methods(), Channel(path)
    methods.cleans_up_s = 0.2
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(DEADLINE_S), serve_grpc(path, [methods.service], grace_s=0.1):
        call = asyncio.ensure_future(failure_of(channel.unary("/a.B/hang", b"")))
        while not methods.running:  # noqa: ASYNC110  # methods tell nobody
            await asyncio.sleep(0.001)
    assert methods.running == 0
    assert asyncio.get_running_loop().time() - began >= 0.3
    assert (await call).code is RpcCode.UNAVAILABLE
    await channel.close()


async def test_a_child_made_by_fork_makes_calls_of_its_own(path: Path) -> None:
    async with both(path) as (_, channel):
        assert await channel.unary("/a.B/echo", b"before") == b"before"
        child = os.fork()
        if child == 0:
            _in_child(path)
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        with os.fdopen(os.pidfd_open(child)) as pidfd:
            loop.add_reader(pidfd, _tell, ended)
            assert [await channel.unary("/a.B/echo", b"%d" % number) for number in range(100)][-1] == b"99"
            await ended
            loop.remove_reader(pidfd)
        assert os.waitpid(child, os.WNOHANG) == (child, 0)  # noqa: ASYNC222  # it has ended
        assert await channel.unary("/a.B/echo", b"after") == b"after"


def _tell(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def _in_child(path: Path) -> None:
    """Make calls in a loop of its own, and end without what tests do at their end."""
    code = 1
    try:
        signal.alarm(DEADLINE_S)
        asyncio._set_running_loop(None)

        async def calls() -> bool:
            channel = Channel(path)
            answers = [await channel.unary("/a.B/echo", b"%d" % number, timeout_s=DEADLINE_S) for number in range(100)]
            await channel.close()
            return answers[-1] == b"99"

        if asyncio.run(calls()):
            code = 0
    finally:
        os._exit(code)
