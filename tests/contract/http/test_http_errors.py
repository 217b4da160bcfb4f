"""What the HTTP server answers to those who ask badly, slowly or not at all."""

from __future__ import annotations

import asyncio
import select
import socket
from pathlib import Path

import pytest

from plugbay.ops.http import serve_http
from plugbay.ops.http_limits import Limits
from plugbay.ops.listening import UnixAddress
from tests.contract.rigs.http_requests import DEADLINE_S, Site, ask, connect, path, status_of

__all__ = ["path"]


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/nowhere", (404, "NotFound", "the server could not find the requested resource")),
        ("GET", "/echo//log", (404, "NotFound", "the server could not find the requested resource")),
        ("POST", "/wait", (405, "MethodNotAllowed", "/wait does not support POST")),
        ("GET", "/refused", (409, "AlreadyExists", 'pods "a" already exists')),
        ("GET", "/broken", (500, "InternalError", "internal error; the server's log has the details")),
        ("GET", "no-slash", (400, "BadRequest", "the request target must be a path")),
    ],
)
async def test_errors_are_kubernetes_statuses(
    path: Path, method: str, target: str, expected: tuple[int, str, str]
) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)), await connect(path) as wire:
        wire.say(f"{method} {target} HTTP/1.1", "Host: h")
        status, body = await wire.response()
        assert (status, *status_of(body)) == (expected[0], *expected)
        wire.say("GET /echo/1/log HTTP/1.1", "Host: h")
        assert (await wire.response())[0] == 200, "the connection is still good"


async def test_an_unexpected_exception_is_logged(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)):
        await ask(path, "GET", "/broken")
    assert [record.getMessage() for record in caplog.records] == ["GET /broken failed"]
    assert "a secret" in caplog.text


async def test_a_wrong_method_is_told_the_right_ones(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)), await connect(path) as wire:
        wire.say("PUT /echo/1/log HTTP/1.1", "Host: h")
        status, headers = await wire.head()
        assert (status, headers["allow"]) == (405, "DELETE, GET, HEAD, POST")


async def test_a_body_that_is_not_json_is_the_clients_fault(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)):
        refused = await ask(path, "POST", "/json", b"{")
        assert status_of(refused.body)[:2] == (400, "BadRequest")
        assert (await ask(path, "POST", "/json", b'{"a": [1]}')).json() == {"a": [1]}


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(b"\x16\x03\x01 hello\r\n\r\n", 400, id="not HTTP"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, id="no host"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", 400, id="length is no number"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 200_000 + b"\r\n\r\n", 431, id="head too large"),
        pytest.param(
            b"POST /json HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n",
            413,
            id="body announced too large",
        ),
        pytest.param(
            b"POST /json HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001,
            413,
            id="body too large",
        ),
    ],
)
async def test_a_bad_request_is_answered_and_ends_the_connection(path: Path, sent: bytes, status: int) -> None:
    async with (
        asyncio.timeout(DEADLINE_S),
        serve_http(Site().router, UnixAddress(path), limits=Limits(body_bytes=1000)),
        await connect(path) as wire,
    ):
        wire.writer.write(sent)
        answered, body = await wire.response()
        assert (answered, status_of(body)[0]) == (status, status)
        assert await wire.ended()
        assert (await ask(path, "GET", "/echo/1/log")).status == 200, "the server goes on"


async def test_a_slow_request_is_given_up(path: Path) -> None:
    limits = Limits(read_s=0.05)
    async with (
        asyncio.timeout(DEADLINE_S),
        serve_http(Site().router, UnixAddress(path), limits=limits),
        await connect(path) as wire,
    ):
        wire.writer.write(b"GET / HT")
        assert (await wire.response())[0] == 408
        assert await wire.ended()


async def test_an_idle_connection_is_closed_silently(path: Path) -> None:
    limits = Limits(idle_s=1)  # long enough that our request is there in time on a busy machine
    async with (
        asyncio.timeout(DEADLINE_S),
        serve_http(Site().router, UnixAddress(path), limits=limits),
        await connect(path) as wire,
    ):
        wire.say("GET /echo/1/log HTTP/1.1", "Host: h")
        assert (await wire.response())[0] == 200
        assert await wire.ended()


async def test_a_client_that_reads_nothing_is_given_up(path: Path) -> None:
    limits = Limits(write_s=0.05)
    with socket.socket(socket.AF_UNIX) as client:
        async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path), limits=limits):
            client.connect(str(path))
            client.send(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
            poller = select.poll()
            poller.register(client, select.POLLRDHUP)
            assert await asyncio.to_thread(poller.poll, DEADLINE_S * 1000), "still connected"
