"""A client of a node's API over TLS that speaks SPDY, as kubectl before 1.31 does, or SPDY within WebSocket."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import yaml
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Event, Request

from plugbay.node.config import NodeConfig
from plugbay.node.run import open_node
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import TcpAddress
from plugbay.ops.tasks import background
from plugbay.wire.spdy.connection import SpdyRole
from plugbay.wire.spdy.session import SpdySession, SpdyStream
from tests.contract.rigs.node_run import DEADLINE_S, PODS, Node, pod

PORT_FORWARD = "portforward.k8s.io"


class ApiNode(NamedTuple):
    """A node with an API over TCP, in which pod ``p`` runs."""

    node: Node
    server: str
    tls: ssl.SSLContext
    token: str

    @property
    def head(self) -> dict[str, str]:
        return {"Host": urlsplit(self.server).netloc, "Authorization": f"Bearer {self.token}"}

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = urlsplit(self.server)
        return await asyncio.open_connection(address.hostname, address.port, ssl=self.tls)


class ControlSocket(NamedTuple):
    """The socket of a node, which serves the same API."""

    path: Path
    head: dict[str, str] = {"Host": "localhost"}  # noqa: RUF012 - it is never changed

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self.path)


@asynccontextmanager
async def api_node(root: Path) -> AsyncIterator[ApiNode]:
    config = NodeConfig(root, name="n1", api=TcpAddress("127.0.0.1", 0))
    async with open_node(config, environ=os.environ, clock=SystemClock()):
        content = yaml.safe_load(config.kubeconfig.read_text())
        [cluster], [user] = content["clusters"], content["users"]
        authority = base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode()
        tls = ssl.create_default_context(cadata=authority)
        node = Node(config)
        await node.create(pod("p"))
        await node.pod_in("p", "Running")
        yield ApiNode(node, cluster["cluster"]["server"], tls, user["user"]["token"])
        await node.gone("p", gracePeriodSeconds="0")


class Answer(NamedTuple):
    """The head of an answer, and a body that came instead of a switch of protocols."""

    status: int
    headers: dict[str, str]
    body: Any = None


class Pipe:
    """The bytes of a connection; in a tunnel they are the messages of WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read(self) -> bytes:
        return await self.reader.read(65536)

    async def write(self, chunk: bytes) -> None:
        self.writer.write(chunk)
        await self.writer.drain()


async def ask(
    api: ApiNode | ControlSocket, subresource: str, *versions: str, pod: str = "p", **query: str | list[str]
) -> tuple[Answer, Pipe]:
    """Ask to switch to SPDY; a body is read when the node does not."""
    reader, writer = await api.connect()
    head = [
        f"POST {PODS}/{pod}/{subresource}?{urlencode(query, doseq=True)} HTTP/1.1",
        *(f"{name}: {value}" for name, value in api.head.items()),
        "Connection: Upgrade",
        "Upgrade: SPDY/3.1",
        "Content-Length: 0",
        *(f"X-Stream-Protocol-Version: {version}" for version in versions),
    ]
    writer.write("\r\n".join([*head, "", ""]).encode())
    answer = (await reader.readuntil(b"\r\n\r\n")).decode()
    lines = answer.split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
    status = int(lines[0].split()[1])
    body = None if status == 101 else json.loads(await reader.readexactly(int(headers["content-length"])))
    return Answer(status, headers, body), Pipe(reader, writer)


@asynccontextmanager
async def session(pipe: Pipe | Tunnel) -> AsyncIterator[SpdySession]:
    """The client's side of SPDY on a connection, which is broken off at the end."""
    client = SpdySession(pipe, SpdyRole.CLIENT)

    async def receive() -> None:
        with suppress(ConnectionError):
            await client.receive()

    try:
        async with asyncio.timeout(DEADLINE_S), background(receive(), name="SPDY client"):
            yield client
    finally:
        pipe.writer.transport.abort()


@asynccontextmanager
async def forwarding(api: ApiNode | ControlSocket, pod: str = "p") -> AsyncIterator[SpdySession]:
    answer, pipe = await ask(api, "portforward", PORT_FORWARD, pod=pod)
    assert (answer.status, answer.headers["x-stream-protocol-version"]) == (101, PORT_FORWARD)
    async with session(pipe) as client:
        yield client


async def forwarded(client: SpdySession, port: object, request: str) -> tuple[SpdyStream, SpdyStream]:
    """The streams of bytes and of words for a connection, in the order in which kubectl opens them."""
    headers = {"port": str(port), "requestid": request}
    words = await client.open({"streamtype": "error", **headers})
    await words.end()
    return await client.open({"streamtype": "data", **headers}), words


async def whole(stream: SpdyStream) -> bytes:
    received = bytearray()
    while chunk := await stream.read():
        received += chunk
    return bytes(received)


class Tunnel(Pipe):
    """Bytes in the messages of WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.protocol = WSConnection(ConnectionType.CLIENT)
        self._events: list[Event] = []

    async def event(self) -> Event:
        while not self._events:
            if not (received := await self.reader.read(65536)):
                raise ConnectionResetError
            self.protocol.receive_data(received)
            self._events += self.protocol.events()
        return self._events.pop(0)

    async def read(self) -> bytes:
        match event := await self.event():
            case BytesMessage(data):
                return bytes(data)
            case CloseConnection():
                return b""
        raise AssertionError(event)

    async def write(self, chunk: bytes) -> None:
        self.writer.write(self.protocol.send(BytesMessage(chunk)))
        await self.writer.drain()


async def tunnel(api: ApiNode, *subprotocols: str, **query: str) -> tuple[Event, Tunnel]:
    """Ask to switch to WebSocket; returns the answer."""
    made = Tunnel(*await api.connect())
    target = f"{PODS}/p/portforward?{urlencode(query)}"
    headers = [(b"Authorization", f"Bearer {api.token}".encode())]
    request = Request(
        host=urlsplit(api.server).netloc, target=target, subprotocols=list(subprotocols), extra_headers=headers
    )
    made.writer.write(made.protocol.send(request))
    return await made.event(), made


@asynccontextmanager
async def forwarding_in_tunnel(api: ApiNode) -> AsyncIterator[SpdySession]:
    answer, made = await tunnel(api, f"SPDY/3.1+{PORT_FORWARD}")
    assert isinstance(answer, AcceptConnection), answer
    assert answer.subprotocol == f"SPDY/3.1+{PORT_FORWARD}"
    async with session(made) as client:
        yield client
