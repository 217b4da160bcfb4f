"""The commands' client against a server that answers in every way a socket allows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from plugbay.cli.kubectl.client import NodeClient, WatchEvent, pod_path, pods_path
from plugbay.errors import NodeUnreachable, RequestRefused
from plugbay.ops.http import serve_http
from plugbay.ops.listening import UnixAddress
from plugbay.ops.routing import HttpError, Request, Response, Router, StreamResponse, json_response

DEADLINE_S = 30
T = TypeVar("T")


class Server:
    """Serves one answer to everything and remembers what was asked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.requests: list[Request] = []

    @asynccontextmanager
    async def answering(self, method: str, path: str, answer: Response | StreamResponse) -> AsyncIterator[NodeClient]:
        async def handler(request: Request) -> Response | StreamResponse:
            self.requests.append(request)
            return answer

        router = Router()
        router.add(method, path, handler)
        async with serve_http(router, UnixAddress(self.root / "plugbay.sock")):
            yield NodeClient(self.root)


@pytest.fixture
def server(sockets: Path) -> Server:
    return Server(sockets)


async def in_thread(work: Callable[[], T]) -> T:
    async with asyncio.timeout(DEADLINE_S):
        return await asyncio.to_thread(work)


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def watch(client: NodeClient) -> Iterator[WatchEvent]:
    with client.watch("/pods") as events:
        yield from events


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_watched_lines_may_be_cut_anywhere(server: Server, size: int) -> None:
    sent = b'{"type": "ADDED", "object": {"a": "\xc3\xa9"}}\n{"type": "DELETED", "object": {}}\n'
    async with server.answering("GET", "/pods", StreamResponse(pieces(sent, size))) as client:
        events = watch(client)
        assert await in_thread(lambda: next(events)) == WatchEvent("ADDED", {"a": "é"})
        assert await in_thread(lambda: next(events)) == WatchEvent("DELETED", {})
        with pytest.raises(NodeUnreachable, match="the node ended the watch"):
            await in_thread(lambda: next(events))


async def test_an_error_in_a_watch_is_a_refusal(server: Server) -> None:
    line = json.dumps({"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}).encode()
    async with server.answering("GET", "/pods", StreamResponse(pieces(line, 1000))) as client:
        with pytest.raises(RequestRefused, match="too old") as caught:
            await in_thread(lambda: next(watch(client)))
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"message": ""}'])
async def test_a_refusal_without_a_sentence_gets_one(server: Server, body: bytes) -> None:
    async with server.answering("GET", "/x", Response(503, body)) as client:
        with pytest.raises(RequestRefused, match="the node answered with HTTP status 503"):
            await in_thread(lambda: client.get("/x"))


async def test_an_answer_that_is_no_object_is_refused(server: Server) -> None:
    async with server.answering("GET", "/x", Response(200, b"ok")) as client:
        with pytest.raises(RequestRefused, match="not a JSON object"):
            await in_thread(lambda: client.get("/x"))


async def test_names_reach_the_server_whatever_they_hold(server: Server) -> None:
    async with server.answering("GET", "/api/v1/namespaces/{ns}/pods/{name}", json_response({})) as client:
        await in_thread(lambda: client.get(pod_path("a/b", "c?d e")))
    (request,) = server.requests
    assert request.params == {"ns": "a/b", "name": "c?d e"}


def test_all_namespaces_have_a_path_of_their_own() -> None:
    assert pods_path(None) == "/api/v1/pods"
    assert pods_path("lab") == "/api/v1/namespaces/lab/pods"


async def test_a_status_is_a_refusal_with_its_reason(server: Server) -> None:
    async def refuse(request: Request) -> Response:
        raise HttpError(404, "NotFound", 'pods "x" not found')

    router = Router()
    router.add("GET", "/x", refuse)
    async with serve_http(router, UnixAddress(server.root / "plugbay.sock")):
        with pytest.raises(RequestRefused) as caught:
            await in_thread(lambda: NodeClient(server.root).get("/x"))
    assert (caught.value.code, caught.value.reason, str(caught.value)) == (404, "NotFound", 'pods "x" not found')
