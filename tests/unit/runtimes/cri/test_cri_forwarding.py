"""Ports of pods, streamed by an engine over a real socket."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from plugbay.errors import PortUnreachable, RpcCode, RpcFailed
from plugbay.model.ids import PodUid
from plugbay.runtimes.cri.config import Conventions
from plugbay.runtimes.cri.forwarding import EnginePorts, connect_streamed
from plugbay.runtimes.cri.sandboxes import CriSandboxes
from plugbay.runtimes.cri.stream_urls import stream_url
from plugbay.runtimes.pod_ports import PodConnection
from plugbay.wire.cri import CriClient
from tests.container_specs import sandbox_spec
from tests.unit.runtimes.cri.scripted_engine import ScriptedEngine
from tests.unit.runtimes.cri.stream_server import DEADLINE_S, Peer, streaming

POD = PodUid("u1")


@asynccontextmanager
async def connected(url: str, *, answer_s: float = DEADLINE_S) -> AsyncIterator[PodConnection]:
    async with asyncio.timeout(DEADLINE_S), connect_streamed(stream_url(url), 80, answer_s=answer_s) as connection:
        yield connection


def end(peer: Peer, kind: str) -> None:
    peer.raw(struct.pack(">II", peer.streams[kind], 1 << 24))


async def test_bytes_travel_and_each_side_ends_by_itself() -> None:
    async def behave(peer: Peer) -> None:
        await peer.accept()
        await peer.until_end("data")
        assert peer.input["data"] == b"hello"
        assert peer.ended == {"error", "data"}
        peer.print("data", b"world")
        end(peer, "data")
        end(peer, "error")
        await peer.until_gone()
        assert "X-Stream-Protocol-Version: portforward.k8s.io" in peer.head

    async with streaming(behave) as url, connected(url) as connection:
        await connection.write(b"hello")
        await connection.end()
        assert [await connection.read() for _ in range(2)] == [b"world", b""]


async def test_the_engines_words_are_the_error() -> None:
    async def behave(peer: Peer) -> None:
        await peer.accept()
        await peer.until_streams(2)
        peer.print("error", b"connection refused")
        end(peer, "error")
        end(peer, "data")
        await peer.until_gone()

    async with streaming(behave) as url, connected(url) as connection:
        with pytest.raises(PortUnreachable, match=r"^connection refused$"):
            await connection.read()


async def test_an_engine_that_breaks_off_breaks_the_connection() -> None:
    async def behave(peer: Peer) -> None:
        await peer.accept()
        await peer.until_streams(2)

    async with streaming(behave) as url, connected(url) as connection:
        with pytest.raises(ConnectionError):
            await connection.read()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "refuses to stream: 404 Not Found"),
        (b"SSH-2.0-x\r\n\r\n", "refuses to stream: SSH-2.0-x"),
        (b"x" * 200_000, "something else than HTTP"),
        (b"", "something else than HTTP"),
    ],
)
async def test_an_engine_that_does_not_stream_is_told_of(answer: bytes, words: str) -> None:
    async def behave(peer: Peer) -> None:
        await peer.accept(answer)

    async with streaming(behave) as url:
        with pytest.raises(PortUnreachable, match=words):
            async with connected(url):
                pass


async def test_an_engine_that_says_nothing_is_told_of() -> None:
    async def behave(peer: Peer) -> None:
        await peer.accept(b"")
        await peer.until_gone()

    async with streaming(behave) as url:
        with pytest.raises(PortUnreachable, match=r"answers none within 0.1 s"):
            async with connected(url, answer_s=0.1):
                pass


async def test_an_engine_that_is_not_there_is_told_of() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(PortUnreachable, match="it listens on loopback"):
        async with connected(f"http://127.0.0.1:{port}/"):
            pass


async def test_the_engine_is_asked_for_the_sandbox_of_the_pod(
    engine: ScriptedEngine, client: CriClient, conventions: Conventions
) -> None:
    sandboxes = CriSandboxes(client, conventions)
    ports = EnginePorts(client, sandboxes)
    with pytest.raises(PortUnreachable, match="has no sandbox"):
        async with ports.connect(POD, 80):
            pass
    await sandboxes.run(sandbox_spec(POD, "default", "web"))

    async def behave(peer: Peer) -> None:
        await peer.accept()
        await peer.until_streams(2)
        peer.print("data", b"there")
        await peer.until_gone()

    async with streaming(behave) as url:
        engine.stream_url = url
        async with asyncio.timeout(DEADLINE_S), ports.connect(POD, 80) as connection:
            assert await connection.read() == b"there"
    [asked] = engine.asked("PortForward")
    assert ([*asked.port], asked.pod_sandbox_id) == ([80], next(iter(engine.sandboxes)))
    engine.failures["PortForward"] = [RpcFailed(RpcCode.NOT_FOUND, "sandbox is not running")]
    with pytest.raises(PortUnreachable, match="sandbox is not running"):
        async with ports.connect(POD, 80):
            pass
