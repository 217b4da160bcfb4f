"""Containers over WebSocket, as kubectl, client libraries and our own commands speak it: both ways on one connection.

Source: Kubernetes 1.36 ``apimachinery/pkg/util/httpstream/wsstream``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Final

from plugbay.errors import ExecFailed, InstanceNotFound, InstanceUnreadable
from plugbay.node.api.streams.channel_codec import ChannelCodec, Reply
from plugbay.node.api.streams.channels import V4, V5
from plugbay.node.api.streams.exec_status import SessionOutput
from plugbay.node.api.streams.websocket_handshake import WEBSOCKET, accepted
from plugbay.ops.routing import Request, UpgradedStream, UpgradeResponse
from plugbay.ops.tasks import first
from plugbay.runtimes.exec_input import ExecInput, TerminalSize

_CLIENT_CLOSES_S: Final = 1.0
"""Closing while the client still sends could destroy what it has not read."""
_BACKLOG_BYTES: Final = 256 * 1024
_CHUNK_OVERHEAD_BYTES: Final = 64


def over_websocket(request: Request, output: SessionOutput, given: ExecInput) -> UpgradeResponse:
    """Switch to WebSocket, and pass ``output`` to the client and its input to ``given``.

    Raises:
        HttpError: 400, the client does not do what the handshake needs, or speaks no subprotocol of ours.
    """
    subprotocol, answers = accepted(request, (V5, V4))
    codec = ChannelCodec(has_half_close=subprotocol == V5)
    return UpgradeResponse(WEBSOCKET, partial(_serve, output=output, given=given, codec=codec), answers)


async def _serve(stream: UpgradedStream, output: SessionOutput, given: ExecInput, codec: ChannelCodec) -> None:
    """Serve the client until the command has ended, the client is gone, or it breaks the protocol."""
    backlog = _Backlog()
    try:
        await first(
            _send(stream, output, codec),
            _receive(stream, backlog, given, codec),
            _pass_on(backlog, given),
            stream.until_gone(),
        )
    except* ConnectionError:
        pass  # the client is gone


async def _send(stream: UpgradedStream, output: SessionOutput, codec: ChannelCodec) -> None:
    """Send the output and the end of the command; then the client has a moment to close the connection on its side."""
    async with aclosing(_messages(output, codec)) as messages:  # it kills the command when the client goes first
        async for each in messages:
            await stream.write(each)
    await asyncio.sleep(_CLIENT_CLOSES_S)


async def _messages(output: SessionOutput, codec: ChannelCodec) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(output) as items:
            async for item in items:
                yield codec.encode(item)
    except (ExecFailed, InstanceNotFound, InstanceUnreadable) as error:
        yield codec.failed(str(error))
    yield codec.close()


async def _receive(stream: UpgradedStream, backlog: _Backlog, given: ExecInput, codec: ChannelCodec) -> None:
    try:
        while chunk := await stream.read():
            for item in codec.feed(chunk):
                match item:
                    case TerminalSize():
                        given.resize(item)
                    case Reply(content):
                        await stream.write(content)
                    case bytes():
                        backlog.add(item)
            await backlog.has_room.wait()
    except ValueError as error:
        await stream.write(codec.refusal(str(error)))


async def _pass_on(backlog: _Backlog, given: ExecInput) -> None:
    while True:
        for chunk in await backlog.take():
            await (given.send(chunk) if chunk else given.end())


class _Backlog:
    """Input that the command has not taken yet: a window changes its size meanwhile. A client waits when it is full."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        self._has_some = asyncio.Event()
        self.has_room = asyncio.Event()
        self.has_room.set()

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk) + _CHUNK_OVERHEAD_BYTES
        if self._size >= _BACKLOG_BYTES:
            self.has_room.clear()
        self._has_some.set()

    async def take(self) -> list[bytes]:
        await self._has_some.wait()
        self._has_some.clear()
        chunks, self._chunks, self._size = self._chunks, [], 0
        self.has_room.set()
        return chunks
