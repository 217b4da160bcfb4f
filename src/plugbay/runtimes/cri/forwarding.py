"""Ports of pods through an engine: it names a URL, and streams there what goes to the port and comes from it.

Source: Kubernetes 1.36 ``kubelet/pkg/cri/streaming/portforward/httpstream.go``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from plugbay.errors import PortUnreachable, RpcFailed
from plugbay.model.ids import PodUid
from plugbay.ops.tasks import background, ungrouped
from plugbay.runtimes.cri.sandboxes import CriSandboxes
from plugbay.runtimes.cri.stream_urls import (
    ANSWER_S,
    CONNECT_S,
    HEAD_END,
    MAX_HEAD_BYTES,
    StreamUrl,
    check_switched,
    stream_url,
)
from plugbay.runtimes.pod_ports import PodConnection
from plugbay.wire.cri import CriClient
from plugbay.wire.spdy.connection import SpdyRole
from plugbay.wire.spdy.frames import SpdyFault
from plugbay.wire.spdy.session import SpdySession, SpdyStream

_PROTOCOL: Final = "portforward.k8s.io"
_MAX_MESSAGE_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 64 * 1024


class EnginePorts:
    """The `plugbay.runtimes.pod_ports.PodPorts` of an engine's pods."""

    def __init__(self, client: CriClient, sandboxes: CriSandboxes) -> None:
        self._client = client
        self._sandboxes = sandboxes

    @asynccontextmanager
    async def connect(self, pod: PodUid, port: int) -> AsyncIterator[PodConnection]:
        sandbox = self._sandboxes.current(pod)
        if sandbox is None:
            raise PortUnreachable(port, f"pod {pod} has no sandbox")
        try:
            where = stream_url(await self._client.port_forward_url(sandbox.id, port))
        except (RpcFailed, ValueError) as error:
            raise PortUnreachable(port, str(error)) from error
        with ungrouped():
            async with connect_streamed(where, port) as connection:
                yield connection


@asynccontextmanager
async def connect_streamed(where: StreamUrl, port: int, *, answer_s: float = ANSWER_S) -> AsyncIterator[PodConnection]:
    """Connect to the port that the engine has put at a URL, while the block runs.

    Args:
        answer_s: how long the engine may take to say whether it streams.

    Raises:
        PortUnreachable: the engine cannot be reached there, or does not stream.
    """
    pipe = await _switched(where, port, answer_s)
    session = SpdySession(pipe, SpdyRole.CLIENT)
    headers = {"port": str(port), "requestid": "0"}
    try:
        async with background(_served(session), name=f"port {port} of a pod"):
            try:
                problems = await session.open({"streamtype": "error", **headers})
                await problems.end()
                yield _EngineConnection(port, await session.open({"streamtype": "data", **headers}), problems)
            finally:
                with contextlib.suppress(ConnectionError):
                    await session.leave()
    finally:
        pipe.abort()


async def _served(session: SpdySession) -> None:
    with contextlib.suppress(SpdyFault, ConnectionError):  # the streams are reset then
        await session.receive()


class _EngineConnection:
    def __init__(self, port: int, data: SpdyStream, problems: SpdyStream) -> None:
        self._port = port
        self._data = data
        self._problems = problems

    async def read(self) -> bytes:
        if chunk := await self._data.read():
            return chunk
        if problem := await self._problem():
            raise PortUnreachable(self._port, problem)
        return b""

    async def write(self, chunk: bytes) -> None:
        await self._data.write(chunk)

    async def end(self) -> None:
        with contextlib.suppress(ConnectionError):
            await self._data.end()

    async def _problem(self) -> str:
        """The engine's words; it ends the stream of them last."""
        message = b""
        with contextlib.suppress(ConnectionError):
            while len(message) < _MAX_MESSAGE_BYTES and (chunk := await self._problems.read()):
                message += chunk
        return message.decode(errors="replace")


class _Pipe:
    """The bytes of a connection with the engine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(_READ_BYTES)

    async def write(self, chunk: bytes) -> None:
        self._writer.write(chunk)
        await self._writer.drain()

    async def head(self) -> bytes:
        return await self._reader.readuntil(HEAD_END)

    def abort(self) -> None:
        self._writer.transport.abort()


async def _switched(where: StreamUrl, port: int, answer_s: float) -> _Pipe:
    """A connection that speaks SPDY from now on."""
    try:
        async with asyncio.timeout(CONNECT_S):
            pipe = _Pipe(*await asyncio.open_connection(where.host, where.port, limit=MAX_HEAD_BYTES))
    except (OSError, TimeoutError) as error:
        raise PortUnreachable(port, where.unreachable(error)) from error
    try:
        async with asyncio.timeout(answer_s):
            await pipe.write(where.request(_PROTOCOL))
            check_switched(await pipe.head())
    except BaseException as error:
        pipe.abort()
        match error:
            case TimeoutError():
                raise PortUnreachable(port, where.silent(answer_s)) from error
            case asyncio.IncompleteReadError() | asyncio.LimitOverrunError() | ConnectionError():
                raise PortUnreachable(port, "the engine answers with something else than HTTP") from error
            case ValueError():
                raise PortUnreachable(port, str(error)) from error
            case _:
                raise
    return pipe
