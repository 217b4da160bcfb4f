"""The HTTP server over real sockets: requests, responses, streams, and its end."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from plugbay.errors import NodeUnreachable, SocketInUse
from plugbay.ops.http import serve_http
from plugbay.ops.http_client import UnixHttpClient
from plugbay.ops.listening import TcpAddress, UnixAddress
from tests.contract.rigs.http_requests import DEADLINE_S, Site, Wire, ask, connect, path, status_of

__all__ = ["path"]


async def test_a_request_reaches_its_handler_decoded(path: Path) -> None:
    client = UnixHttpClient(path)
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)):
        response = await asyncio.to_thread(
            client.request, "POST", "/echo/a%2Fb%20c/log", query={"tail": "3", "q": "ä&="}, body=b'{"a":1}'
        )
    assert response.status == 200
    assert response.json() == {
        "method": "POST",
        "path": "/echo/a/b c/log",
        "params": {"name": "a/b c"},
        "query": {"tail": "3", "q": "ä&="},
        "body": '{"a":1}',
        "x-header": None,
    }


async def test_pipelined_requests_are_answered_in_order_on_one_connection(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)), await connect(path) as wire:
        wire.say("GET /echo/1/log HTTP/1.1", "Host: h", "X-Header: a", "X-Header: b")
        wire.say("POST /echo/2/log HTTP/1.1", "Host: h", "Content-Length: 4", body="body")
        wire.say("DELETE /echo/3/log HTTP/1.1", "Host: h")
        wire.say("GET /nowhere HTTP/1.1", "Host: h")
        first, second, third, fourth = [await wire.response() for _ in range(4)]
        assert json.loads(first[1])["x-header"] == "a, b"
        assert json.loads(second[1])["body"] == "body"
        assert third == (204, b"")
        assert fourth[0] == 404


async def test_a_chunked_request_body_arrives_whole(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)), await connect(path) as wire:
        wire.say(
            "POST /echo/1/log HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", body="2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
        )
        assert json.loads((await wire.response())[1])["body"] == "abc"


async def test_a_client_that_asks_before_sending_its_body_is_told_to_go_on(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)), await connect(path) as wire:
        wire.say("POST /echo/1/log HTTP/1.1", "Host: h", "Content-Length: 1", "Expect: 100-continue")
        assert (await wire.head())[0] == 100
        wire.writer.write(b"x")
        assert json.loads((await wire.response())[1])["body"] == "x"


async def test_head_answers_as_get_without_the_body(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)), await connect(path) as wire:
        wire.say("HEAD /large HTTP/1.1", "Host: h")
        status, headers = await wire.head()
        assert (status, headers["content-length"]) == (200, "5000000")
        wire.say("HEAD /stream HTTP/1.1", "Host: h")
        assert (await wire.head())[0] == 200
        assert await wire.ended()


async def test_a_large_response_arrives_whole(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)):
        assert len((await ask(path, "GET", "/large")).body) == 5_000_000


async def test_requests_are_served_at_the_same_time(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)):
        answers = await asyncio.gather(*[ask(path, "GET", "/together") for _ in range(3)])
    assert [answer.body for answer in answers] == [b"met"] * 3


async def test_a_client_that_ends_its_side_early_still_gets_its_answer(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)), await connect(path) as wire:
        wire.say("GET /echo/1/log HTTP/1.1", "Host: h")
        wire.writer.write_eof()
        assert (await wire.response())[0] == 200
        assert await wire.ended()


async def test_the_port_chosen_by_the_kernel_is_told(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, TcpAddress("127.0.0.1", 0)) as address:
        assert isinstance(address, TcpAddress)
        async with Wire(*await asyncio.open_connection(address.host, address.port)) as wire:
            wire.say("GET /echo/1/log HTTP/1.1", "Host: h")
            assert (await wire.response())[0] == 200
        with pytest.raises(SocketInUse, match=f"listening at 127.0.0.1:{address.port}"):
            async with serve_http(Site().router, address):
                pytest.fail("two servers on one port")


# --- streams -------------------------------------------------------------------------------------------------------


async def test_chunks_arrive_as_they_are_made(path: Path) -> None:
    site = Site()

    def read(loop: asyncio.AbstractEventLoop) -> list[bytes]:
        with UnixHttpClient(path).stream("GET", "/stream") as response:
            first = next(response.chunks)
            loop.call_soon_threadsafe(site.go_on.set)
            return [first, *response.chunks]

    async with asyncio.timeout(DEADLINE_S), serve_http(site.router, UnixAddress(path)):
        assert await asyncio.to_thread(read, asyncio.get_running_loop()) == [b"first", b"second"]
        assert site.stream_closed.is_set()


async def test_a_client_that_goes_away_closes_the_stream(path: Path) -> None:
    site = Site()
    async with asyncio.timeout(DEADLINE_S), serve_http(site.router, UnixAddress(path)):
        async with await connect(path) as wire:
            wire.say("GET /stream HTTP/1.1", "Host: h")
            assert (await wire.head())[0] == 200
            await site.started.wait()
            assert not site.stream_closed.is_set()
        await site.stream_closed.wait()


async def test_a_stream_that_breaks_off_is_seen_by_the_client(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def read() -> None:
        with UnixHttpClient(path).stream("GET", "/broken-stream") as response:
            assert next(response.chunks) == b"first"
            with pytest.raises(NodeUnreachable, match="the connection broke off"):
                next(response.chunks)

    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)):
        await asyncio.to_thread(read)
    assert "no second" in caplog.text


async def test_a_request_that_fails_before_the_stream_is_an_ordinary_answer(path: Path) -> None:
    def read() -> tuple[int, bytes]:
        with UnixHttpClient(path).stream("GET", "/refused") as response:
            return response.status, b"".join(response.chunks)

    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)):
        status, body = await asyncio.to_thread(read)
    assert (status, status_of(body)[1]) == (409, "AlreadyExists")


# --- closing -------------------------------------------------------------------------------------------------------


async def test_a_handler_at_work_may_finish_when_the_server_closes(path: Path) -> None:
    site = Site()
    async with asyncio.timeout(DEADLINE_S), AsyncExitStack() as server:
        await server.enter_async_context(serve_http(site.router, UnixAddress(path), grace_s=DEADLINE_S))
        async with await connect(path) as idle, await connect(path) as busy, asyncio.TaskGroup() as tasks:
            busy.say("GET /wait HTTP/1.1", "Host: h")
            await site.started.wait()
            closing = tasks.create_task(server.aclose())
            assert await idle.ended(), "closed at once"
            with pytest.raises(FileNotFoundError):
                await connect(path)
            assert not closing.done()
            site.go_on.set()
            assert await busy.response() == (200, b"waited")
            assert await busy.ended()


async def test_an_error_beside_the_server_comes_through_as_it_is(path: Path) -> None:
    with pytest.raises(LookupError, match="mine"):
        async with serve_http(Site().router, UnixAddress(path)):
            raise LookupError("mine")
    assert not path.exists()


async def test_a_handler_that_does_not_finish_is_cancelled(path: Path) -> None:
    site = Site()
    async with asyncio.timeout(DEADLINE_S):
        async with serve_http(site.router, UnixAddress(path), grace_s=0.01):
            wire = await connect(path)
            wire.say("GET /wait HTTP/1.1", "Host: h")
            await site.started.wait()
        assert site.cancelled.is_set()
        async with wire:
            assert await wire.ended()


async def test_a_stream_is_closed_with_the_server(path: Path) -> None:
    site = Site()
    async with asyncio.timeout(DEADLINE_S):
        async with serve_http(site.router, UnixAddress(path), grace_s=0.01):
            wire = await connect(path)
            wire.say("GET /stream HTTP/1.1", "Host: h")
            await site.started.wait()
        assert site.stream_closed.is_set()
        wire.writer.transport.abort()
