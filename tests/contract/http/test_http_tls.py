"""The HTTP server over TLS: all of what it sends arrives, whatever its size, and slow clients are waited for."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plugbay.node.access.certificate import make_certificates
from plugbay.ops.http import serve_http
from plugbay.ops.http_access import Access
from plugbay.ops.listening import TcpAddress
from plugbay.ops.routing import Request, Response, Router, StreamResponse, UpgradedStream, UpgradeResponse

DEADLINE_S = 30
CHUNK = bytes(range(256)) * 256
CHUNKS = 60


async def chunks() -> AsyncIterator[bytes]:
    for _ in range(CHUNKS):
        yield CHUNK


async def whole(request: Request) -> Response:
    return Response(body=CHUNK * CHUNKS)


async def streamed(request: Request) -> StreamResponse:
    return StreamResponse(chunks())


async def upgraded(request: Request) -> UpgradeResponse:
    async def serve(stream: UpgradedStream) -> None:
        async for chunk in chunks():
            await stream.write(chunk)
        assert await stream.read() == b"thanks"

    return UpgradeResponse("own", serve)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    path = tmp_path / "certificate.pem"
    path.write_text(make_certificates(["localhost"], datetime.now(UTC)))
    return path


@asynccontextmanager
async def asked(certificate: Path, path: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client's connection on which ``path`` was asked for, after the head of the answer."""
    router = Router()
    for template, handler in (("/whole", whole), ("/streamed", streamed), ("/upgraded", upgraded)):
        router.add("GET", template, handler)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    trusted = ssl.create_default_context(cadata=certificate.read_text())
    async with asyncio.timeout(DEADLINE_S), serve_http(router, TcpAddress("127.0.0.1", 0), access=Access(tls)) as bound:
        assert isinstance(bound, TcpAddress)
        reader, writer = await asyncio.open_connection(bound.host, bound.port, ssl=trusted, server_hostname="localhost")
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: own\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            yield reader, writer
        finally:
            writer.transport.abort()


async def test_a_large_answer_arrives_whole(certificate: Path) -> None:
    async with asked(certificate, "/whole") as (reader, _):
        assert await reader.readexactly(len(CHUNK) * CHUNKS) == CHUNK * CHUNKS


async def test_a_stream_arrives_whole(certificate: Path) -> None:
    async with asked(certificate, "/streamed") as (reader, _):
        received = await reader.read(-1)
        assert received.count(CHUNK) == CHUNKS
        assert received.endswith(b"0\r\n\r\n")


async def test_an_upgraded_connection_carries_all_both_ways(certificate: Path) -> None:
    async with asked(certificate, "/upgraded") as (reader, writer):
        assert await reader.readexactly(len(CHUNK) * CHUNKS) == CHUNK * CHUNKS
        writer.write(b"thanks")
        assert await reader.read(-1) == b""
