"""Forwarded ports over WebSocket, as client libraries other than kubectl speak it: one connection for each named port.

Every message begins with its channel: for each port one of bytes and one of words about what went wrong. The first
message of each tells its port. No side can end its bytes alone; WebSocket is closed when all connections are over.

Source: Kubernetes 1.36 ``kubelet/pkg/cri/streaming/portforward/websocket.go``; ``stream/ws_client.py`` of the Python
client 37.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Final

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from plugbay.node.api.streams.forwarding import ForwardedPod, carry, port_number
from plugbay.ops.routing import HttpError, Request, UpgradedStream
from plugbay.ops.tasks import first

MOST_PORTS: Final = 64
_PORT: Final = struct.Struct("<H")
_NORMAL: Final = 1000
_PROTOCOL_ERROR: Final = 1002
_WRITE_BYTES: Final = 32 * 1024
_WAITING_CHUNKS: Final = 16
"""The chunks of a port that wait for its process; the client waits when there are more."""
_CLIENT_LEAVES_S: Final = 1.0


def ports_of(request: Request) -> list[int]:
    """The ports in the query: ``ports`` several times, or joined by commas.

    Raises:
        HttpError: 400, there are none, or too many.
    """
    named = [each for value in request.values("ports") for each in value.split(",")]
    if not named:
        raise HttpError(400, "BadRequest", 'query parameter "ports" is required')
    if len(named) > MOST_PORTS:
        raise HttpError(400, "BadRequest", f"{len(named)} ports are too many, at most {MOST_PORTS} are forwarded")
    try:
        return [port_number(each) for each in named]
    except ValueError as error:
        raise HttpError(400, "BadRequest", str(error)) from None


async def forward_over_channels(connection: UpgradedStream, pod: ForwardedPod, ports: Sequence[int]) -> None:
    """Serve one client until all connections are over, or it leaves."""
    channels = _Channels(connection, len(ports))
    try:
        await first(channels.receive(), connection.until_gone(), _forward(channels, pod, ports))
    except* ConnectionError:
        pass  # the client is gone, or breaks the protocol


async def _forward(channels: _Channels, pod: ForwardedPod, ports: Sequence[int]) -> None:
    for index, port in enumerate(ports):
        for channel in (2 * index, 2 * index + 1):
            await channels.send(channel, _PORT.pack(port))
    async with asyncio.TaskGroup() as tasks:
        for index, port in enumerate(ports):
            tasks.create_task(_carry(channels.clients[index], pod, port))
    await channels.close(_NORMAL)
    await asyncio.sleep(_CLIENT_LEAVES_S)


async def _carry(client: _ChannelClient, pod: ForwardedPod, port: int) -> None:
    if problem := await carry(pod, port, client):
        await client.tell(problem)
    client.leave()


class _ChannelClient:
    """The `plugbay.node.api.streams.forwarding.ForwardedClient` of one port."""

    def __init__(self, channels: _Channels, index: int) -> None:
        self._channels = channels
        self._index = index
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(_WAITING_CHUNKS)
        self._over = asyncio.Event()

    async def add(self, chunk: bytes) -> None:
        """Let a chunk wait for the process; waits when too many do. What comes after the end is dropped."""
        if not self._over.is_set():
            await first(self._waiting.put(chunk), self._over.wait())

    async def read(self) -> bytes:
        return await self._waiting.get()

    async def write(self, chunk: bytes) -> None:
        for start in range(0, len(chunk), _WRITE_BYTES):
            await self._channels.send(2 * self._index, chunk[start : start + _WRITE_BYTES])

    async def end(self) -> None:
        """The connection is over: the client cannot be told that one side is."""
        raise ConnectionAbortedError("the process has ended its side")

    async def tell(self, problem: str) -> None:
        await self._channels.send(2 * self._index + 1, problem.encode())

    def leave(self) -> None:
        self._over.set()


class _Channels:
    """The channels of one client."""

    def __init__(self, connection: UpgradedStream, count: int) -> None:
        self._connection = connection
        self._protocol = Connection(ConnectionType.SERVER)
        self._channel: int | None = None
        """That of the message which is coming."""
        self.clients = [_ChannelClient(self, index) for index in range(count)]

    async def receive(self) -> None:
        """Take in what the client sends until it closes the connection.

        Raises:
            ConnectionError: the client breaks the protocol.
        """
        while received := await self._connection.read():
            try:
                self._protocol.receive_data(received)
                for event in self._protocol.events():
                    match event:
                        case BytesMessage(data):
                            await self._take(bytes(data), is_last=event.message_finished)
                        case Ping():
                            await self._connection.write(self._protocol.send(event.response()))
                        case TextMessage():
                            raise RemoteProtocolError("text where bytes belong")
                        case CloseConnection():
                            return
            except RemoteProtocolError as error:
                await self.close(_PROTOCOL_ERROR)
                raise ConnectionAbortedError(str(error)) from error

    async def send(self, channel: int, payload: bytes) -> None:
        await self._send(BytesMessage(bytes([channel]) + payload))

    async def close(self, code: int) -> None:
        await self._send(CloseConnection(code))

    async def _take(self, data: bytes, *, is_last: bool) -> None:
        if self._channel is None and data:
            self._channel, data = data[0], data[1:]
            if self._channel % 2 or self._channel >= 2 * len(self.clients):
                raise RemoteProtocolError(f"a client has no channel {self._channel}")
        if data and self._channel is not None:
            await self.clients[self._channel // 2].add(data)
        if is_last:
            self._channel = None

    async def _send(self, event: BytesMessage | CloseConnection) -> None:
        try:
            frame = self._protocol.send(event)
        except LocalProtocolError:  # the client has closed it
            return
        await self._connection.write(frame)
