from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from plugbay.errors import NodeUnreachable, PathTooLong, PathUnusable, SocketInUse, UsageError
from plugbay.ops.http import serve_http
from plugbay.ops.http_client import ClientResponse, UnixHttpClient
from plugbay.ops.http_connection import Limits
from plugbay.ops.listening import TcpAddress, UnixAddress
from plugbay.ops.routing import HttpError, Request, Response, Router, StreamResponse, json_response

DEADLINE_S = 30


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pb") as directory:
        yield Path(directory) / "s"


class Site:
    """Handlers that show what they got, and events that show what became of them."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.stream_closed = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.together = asyncio.Barrier(3)
        self.router = Router()
        self.router.add("GET", "/echo/{name}/log", self.echo)
        self.router.add("POST", "/echo/{name}/log", self.echo)
        self.router.add("DELETE", "/echo/{name}/log", self.empty)
        self.router.add("GET", "/wait", self.wait)
        self.router.add("GET", "/together", self.meet)
        self.router.add("GET", "/stream", self.stream)
        self.router.add("GET", "/broken-stream", self.broken_stream)
        self.router.add("GET", "/broken", self.broken)
        self.router.add("GET", "/refused", self.refused)
        self.router.add("POST", "/json", self.json)
        self.router.add("GET", "/large", self.large)

    async def echo(self, request: Request) -> Response:
        return json_response(
            {
                "method": request.method,
                "path": request.path,
                "params": dict(request.params),
                "query": dict(request.query),
                "body": request.body.decode(),
                "x-header": request.headers.get("x-header"),
            }
        )

    async def empty(self, request: Request) -> Response:
        return Response(204)

    async def wait(self, request: Request) -> Response:
        self.started.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return Response(body=b"waited")

    async def meet(self, request: Request) -> Response:
        await self.together.wait()
        return Response(body=b"met")

    async def stream(self, request: Request) -> StreamResponse:
        return StreamResponse(self.lines())

    async def lines(self) -> AsyncIterator[bytes]:
        try:
            yield b"first"
            self.started.set()
            await self.go_on.wait()
            yield b"second"
        finally:
            self.stream_closed.set()

    async def broken_stream(self, request: Request) -> StreamResponse:
        async def chunks() -> AsyncIterator[bytes]:
            yield b"first"
            raise ValueError("no second")

        return StreamResponse(chunks())

    async def broken(self, request: Request) -> Response:
        raise ValueError("a secret")

    async def refused(self, request: Request) -> Response:
        raise HttpError(409, "AlreadyExists", 'pods "a" already exists')

    async def json(self, request: Request) -> Response:
        return json_response(request.json())

    async def large(self, request: Request) -> Response:
        return Response(body=b"x" * 5_000_000)


class Wire:
    """A client that says exactly what the test wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def __aenter__(self) -> Wire:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    def say(self, *lines: str, body: str = "") -> None:
        self.writer.write("\r\n".join([*lines, "", body]).encode())

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value for name, value in headers.items()}

    async def response(self) -> tuple[int, bytes]:
        status, headers = await self.head()
        return status, await self.reader.readexactly(int(headers.get("content-length", 0)))

    async def ended(self) -> bool:
        return await self.reader.read() == b""


async def connect(path: Path) -> Wire:
    return Wire(*await asyncio.open_unix_connection(str(path)))


def status_of(body: bytes) -> tuple[int, str, str]:
    status = json.loads(body)
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    return status["code"], status["reason"], status["message"]


async def ask(path: Path, method: str, target: str, body: bytes = b"") -> ClientResponse:
    return await asyncio.to_thread(UnixHttpClient(path, timeout_s=DEADLINE_S).request, method, target, body=body)


# --- requests and responses ----------------------------------------------------------------------------------------


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


# --- errors --------------------------------------------------------------------------------------------------------


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


# --- sockets -------------------------------------------------------------------------------------------------------


async def test_the_socket_is_for_its_owner_only_and_goes_with_the_server(path: Path) -> None:
    before = os.umask(0)
    try:
        async with serve_http(Site().router, UnixAddress(path)):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert not path.exists()


async def test_a_leftover_socket_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)):
        assert (await ask(path, "GET", "/echo/1/log")).status == 200


async def test_a_second_server_is_refused_and_the_first_goes_on(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)):
        with pytest.raises(SocketInUse, match=f"another program is listening at {path}"):
            async with serve_http(Site().router, UnixAddress(path)):
                pytest.fail("two servers on one socket")
        assert (await ask(path, "GET", "/echo/1/log")).status == 200


async def test_a_server_whose_queue_is_full_counts_as_one(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))
        with pytest.raises(SocketInUse):
            async with serve_http(Site().router, UnixAddress(path)):
                pytest.fail("took over a socket in use")


async def test_a_file_that_is_no_socket_is_left_alone(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(PathUnusable, match="exists and is not a socket"):
        async with serve_http(Site().router, UnixAddress(path)):
            pytest.fail("took the place of a file")
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "error"), [("x" * 108, PathTooLong), ("absent/s", PathUnusable)], ids=["too long", "no directory"]
)
async def test_a_path_that_cannot_be_bound_is_named(path: Path, name: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=name):
        async with serve_http(Site().router, UnixAddress(path.parent / name)):
            pytest.fail("listening nowhere")


async def test_the_socket_of_a_successor_is_not_removed(path: Path) -> None:
    async with serve_http(Site().router, UnixAddress(path)):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as successor:
            successor.bind(str(path))
    assert path.exists()


# --- the client ----------------------------------------------------------------------------------------------------


def test_an_absent_socket_is_named(path: Path) -> None:
    with pytest.raises(NodeUnreachable, match=rf"{path} \(there is no such socket\)"):
        UnixHttpClient(path).request("GET", "/")


def test_a_dead_socket_is_named(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(NodeUnreachable, match="nobody is listening"):
        UnixHttpClient(path).request("GET", "/")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may connect everywhere")
async def test_a_closed_socket_is_named(path: Path) -> None:
    async with serve_http(Site().router, UnixAddress(path)):
        path.chmod(0)
        with pytest.raises(NodeUnreachable, match="permission denied"):
            await ask(path, "GET", "/")


def test_a_server_that_has_come_meanwhile_answers(path: Path) -> None:
    """Just after nobody did, and without being seen to come."""
    with socket.socket(socket.AF_UNIX) as server:

        def come() -> None:
            server.bind(str(path))
            server.listen()

        with pytest.raises(NodeUnreachable, match=r"no answer within 0\.05 s"):
            UnixHttpClient(path, timeout_s=0.05, wait_for_server=come).request("GET", "/")


def test_a_path_too_long_to_connect_is_an_answer_too(path: Path) -> None:
    with pytest.raises(NodeUnreachable, match="path too long"):
        UnixHttpClient(path.with_name("x" * 108)).request("GET", "/")


def test_a_server_that_says_nothing_is_given_up(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        with pytest.raises(NodeUnreachable, match=r"no answer within 0\.05 s"):
            UnixHttpClient(path, timeout_s=0.05).request("GET", "/")


async def test_a_server_that_hangs_up_is_named(path: Path) -> None:
    def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with asyncio.timeout(DEADLINE_S), await asyncio.start_unix_server(hang_up, str(path)):
        with pytest.raises(NodeUnreachable, match="the connection broke off"):
            await ask(path, "GET", "/")


async def test_a_refused_large_body_is_told_the_reason(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)):
        response = await ask(path, "POST", "/json", b"x" * (16 * 1024 * 1024))
    assert status_of(response.body) == (
        413,
        "RequestEntityTooLarge",
        "the request body is larger than 4194304 bytes",
    )


def test_the_client_imports_no_http_library_before_it_is_used() -> None:
    source = "import sys, plugbay.ops.http_client; sys.exit('http.client' in sys.modules or 'asyncio' in sys.modules)"
    subprocess.run([sys.executable, "-c", source], check=True, timeout=DEADLINE_S)


async def test_a_missing_h11_is_one_sentence(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h11", None)
    monkeypatch.delitem(sys.modules, "plugbay.ops.http_connection")
    with pytest.raises(UsageError, match="pip install h11"):
        async with serve_http(Router(), UnixAddress(path)):
            pytest.fail("served without h11")
