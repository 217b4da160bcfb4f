"""A server's socket, and its calls at all the moments at which it may end."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from plugbay.errors import PathUnusable, RpcCode
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import ServerStream, Service, Unary
from tests.contract.rigs.raw_http2 import begin_call, end_of_call, open_connection
from tests.contract.rigs.wire import DEADLINE_S, failure_of, path

__all__ = ["path"]

METHOD = "/a.B/C"


def offering(method: Unary | ServerStream) -> list[Service]:
    return [Service("a.B", {"C": method})]


async def echo(request: bytes) -> bytes:
    return request


# --- the socket -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0, 0o022, 0o177, 0o777], ids=oct)
async def test_only_the_owner_may_connect_whatever_the_umask(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        async with serve_grpc(path, offering(Unary(echo))):
            assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    finally:
        os.umask(before)


async def test_socket_that_another_server_has_made_is_left_alone(path: Path) -> None:
    running = asyncio.Event()

    async def slow(request: bytes) -> bytes:
        running.set()
        await asyncio.sleep(0.2)
        return request

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        channel = Channel(path)
        async with serve_grpc(path, offering(Unary(slow)), grace_s=DEADLINE_S):
            call = tasks.create_task(channel.unary(METHOD, b"x"))
            await running.wait()
            path.unlink()  # as a kubelet does that begins anew
            others = tasks.create_task(_until_bound(path))
        with await others:
            assert await call == b"x"
            assert path.is_socket()
        await channel.close()


async def _until_bound(path: Path) -> socket.socket:
    """Bind while the server ends, so that the new file may get the number of the old one."""
    await asyncio.sleep(0.05)
    other = socket.socket(socket.AF_UNIX)
    other.bind(str(path))
    return other


async def test_socket_is_gone_as_soon_as_no_peer_is_let_in(path: Path) -> None:
    """A plugin that drains is not found by a manager that would be refused."""
    ends = asyncio.Event()

    async def slow(request: bytes) -> bytes:
        ends.set()
        while path.exists():  # noqa: ASYNC110  # the kernel tells nobody
            await asyncio.sleep(0.01)
        return request

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        channel = Channel(path)
        async with serve_grpc(path, offering(Unary(slow)), grace_s=DEADLINE_S):
            call = tasks.create_task(channel.unary(METHOD, b"x"))
            await ends.wait()
        assert await call == b"x"
        await channel.close()


async def test_end_needs_no_directory(sockets: Path) -> None:
    directory = sockets / "d"
    directory.mkdir()
    async with serve_grpc(directory / "s", []):
        (directory / "s").unlink()
        directory.rmdir()
        directory.touch()


async def test_socket_in_place_of_which_is_something_else(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(PathUnusable, match="not a socket"):
        async with serve_grpc(path, []):
            pass
    assert path.read_text() == "precious"


# --- the end --------------------------------------------------------------------------------------------------------


async def test_end_waits_for_a_method_whose_request_arrives_during_it(path: Path) -> None:
    first, may_end = asyncio.Event(), asyncio.Event()
    ended: list[bytes] = []

    async def answer(request: bytes) -> bytes:
        first.set()
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()
            await asyncio.sleep(0.05)
            ended.append(request)
        return request

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        async with serve_grpc(path, offering(Unary(answer))):
            channel = Channel(path)
            call = tasks.create_task(failure_of(channel.unary(METHOD, b"first")))
            await first.wait()
            writer = await open_connection(path)
            writer.write(begin_call(METHOD))
            await asyncio.sleep(0.1)
            first.clear()

            async def go_on() -> None:
                await asyncio.sleep(0.1)  # the first method is cancelled by now
                writer.write(end_of_call())
                await first.wait()
                may_end.set()

            tasks.create_task(go_on())
        assert sorted(ended) == [b"", b"first"]
        assert (await call).code is RpcCode.UNAVAILABLE
        writer.close()
        await channel.close()


async def test_answer_that_the_peer_takes_slowly_is_sent_within_the_grace(path: Path) -> None:
    async def much(_: bytes) -> bytes:
        asked.set()
        return bytes(3_000_000)

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        asked = asyncio.Event()
        channel = Channel(path)
        async with serve_grpc(path, offering(Unary(much)), grace_s=DEADLINE_S):
            call = tasks.create_task(channel.unary(METHOD, b""))
            await asked.wait()
        assert await call == bytes(3_000_000)
        await channel.close()


# --- methods that fail ----------------------------------------------------------------------------------------------


class Abrupt(BaseException):
    """As ``pytest.fail`` raises, for instance."""


async def test_method_that_fails_badly_fails_its_call(path: Path) -> None:
    async def unary(_: bytes) -> bytes:
        raise Abrupt("ouch")

    async def stream(_: bytes, __: Metadata) -> AsyncGenerator[bytes, None]:
        yield b"first"
        raise Abrupt("ouch")

    for method in (Unary(unary), ServerStream(stream)):
        async with asyncio.timeout(DEADLINE_S), serve_grpc(path, offering(method)):
            channel = Channel(path)
            messages = channel.stream(METHOD, b"")
            if isinstance(method, ServerStream):
                assert await anext(messages) == b"first"
            failure = await failure_of(anext(messages))
            assert (failure.code, failure.detail) == (RpcCode.UNKNOWN, "Abrupt: ouch")
            await channel.close()


async def test_method_that_cancels_itself_fails_its_call(path: Path) -> None:
    async def cancel(_: bytes) -> bytes:
        raise asyncio.CancelledError

    async with asyncio.timeout(DEADLINE_S), serve_grpc(path, offering(Unary(cancel))):
        channel = Channel(path)
        failure = await failure_of(channel.unary(METHOD, b""))
        assert (failure.code, failure.detail) == (RpcCode.CANCELLED, "context canceled")
        await channel.close()


async def test_method_that_swallows_its_cancellation_holds_up_the_end_until_it_ends(path: Path) -> None:
    running = asyncio.Event()
    did: list[str] = []

    async def stubborn(request: bytes) -> bytes:
        running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            did.append("swallowed")
        await asyncio.sleep(0.05)
        did.append("ended")
        return request

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        channel = Channel(path)
        async with serve_grpc(path, offering(Unary(stubborn))):
            call = tasks.create_task(channel.unary(METHOD, b"x"))
            await running.wait()
        assert did == ["swallowed", "ended"]
        assert await call == b"x"
        await channel.close()
