"""What tests of the HTTP server share: a site to ask, and a client that says exactly what the test wants."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from plugbay.ops.http_client import ClientResponse, UnixHttpClient
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
