"""Ports of pods, forwarded over SPDY, over SPDY within WebSocket, and over channels of WebSocket."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, RejectConnection

from plugbay.wire.spdy.connection import SpdyConnection, SpdyRole
from plugbay.wire.spdy.session import SpdySession
from tests.contract.rigs.node_run import DEADLINE_S, PODS
from tests.contract.rigs.spdy_client import (
    PORT_FORWARD,
    ApiNode,
    Tunnel,
    api_node,
    ask,
    forwarded,
    forwarding,
    forwarding_in_tunnel,
    tunnel,
    whole,
)

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Way = Callable[[ApiNode], AbstractAsyncContextManager[SpdySession]]
MEGABYTE = bytes(range(256)) * 4096


@pytest.fixture
async def api(sockets: Path) -> AsyncIterator[ApiNode]:
    async with api_node(sockets) as api:
        yield api


@pytest.fixture(params=[forwarding, forwarding_in_tunnel], ids=["spdy", "tunnel"])
def way(request: pytest.FixtureRequest) -> Way:
    chosen: Way = request.param
    return chosen


@asynccontextmanager
async def listening(behave: Behaviour, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """The port of a process in the pod: on the host's network that is any process of the host."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behave(reader, writer)
        finally:
            writer.close()

    async with await asyncio.start_server(serve, host, 0) as server:
        yield server.sockets[0].getsockname()[1]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()


async def answer_at_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The length of what came, once the other side has ended."""
    writer.write(b"%d" % len(await reader.read()))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_each_side_ends_by_itself(api: ApiNode, way: Way) -> None:
    async with listening(answer_at_the_end) as port, way(api) as client:
        data, words = await forwarded(client, port, "0")
        await data.write(b"twelve bytes")
        await data.end()
        assert await whole(data) == b"12"
        assert await whole(words) == b""


async def test_many_connections_go_on_at_once(api: ApiNode, way: Way) -> None:
    async with listening(echo) as port, way(api) as client:
        pairs = [await forwarded(client, port, str(number)) for number in range(100)]
        for number, (data, _) in enumerate(pairs):
            await data.write(b"%d" % number)
        for number, (data, words) in reversed(list(enumerate(pairs))):
            await data.end()
            assert await whole(data) == b"%d" % number
            assert await whole(words) == b""


@pytest.mark.timeout(120)
async def test_100_megabytes_arrive_both_ways(api: ApiNode, way: Way) -> None:
    """They come back as they went, and few of them wait in the node or in the client, which are in one process here."""
    received, sent = hashlib.sha256(), hashlib.sha256()
    before = memory_kb("VmRSS")
    is_measured = begin_peak()
    async with listening(echo) as port, way(api) as client, asyncio.TaskGroup() as tasks:
        data, _ = await forwarded(client, port, "0")

        async def send() -> None:
            for _ in range(100):
                sent.update(MEGABYTE)
                await data.write(MEGABYTE)
            await data.end()

        tasks.create_task(send())
        while chunk := await data.read():
            received.update(chunk)
    assert received.digest() == sent.digest()
    assert not is_measured or memory_kb("VmHWM") - before < 40 * 1024


def begin_peak() -> bool:
    """Let the peak of memory begin now; False where the kernel has no such switch."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def memory_kb(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


async def test_a_process_that_reads_nothing_does_not_fill_the_node(api: ApiNode, way: Way) -> None:
    """The client is held up after some megabytes, and serves itself again by giving the connection up."""
    stop = asyncio.Event()

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stop.wait()

    async with listening(deaf) as port, way(api) as client:
        data, _ = await forwarded(client, port, "0")
        written: list[int] = []

        async def send() -> None:
            while len(written) < 200:
                await data.write(MEGABYTE)
                written.append(1)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(send(), 2)  # far more than that takes if nothing held it up
        stop.set()
    assert len(written) < 60


async def test_a_port_where_nothing_listens_is_told_and_the_others_go_on(api: ApiNode, way: Way) -> None:
    async with listening(echo) as port, way(api) as client:
        before, _ = await forwarded(client, port, "0")
        data, words = await forwarded(client, free_port(), "1")
        said = (await whole(words)).decode()
        assert said.startswith("error forwarding port ")
        assert "to pod p, uid " in said
        assert "127.0.0.1: connection refused" in said
        with pytest.raises(ConnectionResetError):
            await whole(data)
        await before.write(b"still there")
        assert await before.read() == b"still there"


async def test_a_process_that_breaks_off_breaks_its_connection_only(api: ApiNode, way: Way) -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async with listening(reset) as port, listening(echo) as other, way(api) as client:
        data, words = await forwarded(client, port, "0")
        await data.write(b"x")
        with pytest.raises(ConnectionResetError):
            await whole(data)
        assert await whole(words) == b"", "kubectl would end the whole forwarding at any words"
        again, _ = await forwarded(client, other, "1")
        await again.write(b"y")
        assert await again.read() == b"y"


async def test_a_client_that_gives_a_connection_up_frees_the_process(api: ApiNode, way: Way) -> None:
    freed = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"ready")
        try:
            await reader.read()
        except ConnectionError:
            pass
        freed.set()

    async with listening(wait) as port, way(api) as client:
        data, words = await forwarded(client, port, "0")
        assert await data.read() == b"ready"
        await data.reset()
        await freed.wait()
        assert await whole(words) == b""


async def test_a_client_that_vanishes_frees_the_processes(api: ApiNode, way: Way) -> None:
    freed = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"ready")
        try:
            await reader.read()
        except ConnectionError:
            pass
        freed.set()

    async with listening(wait) as port:
        async with way(api) as client:
            data, _ = await forwarded(client, port, "0")
            assert await data.read() == b"ready"
        async with asyncio.timeout(DEADLINE_S):
            await freed.wait()


async def test_a_node_that_stops_ends_the_forwarding(sockets: Path) -> None:
    async with listening(echo) as port:
        async with api_node(sockets) as api:
            answer, pipe = await ask(api, "portforward", PORT_FORWARD)
            assert answer.status == 101
            opened = SpdyConnection(SpdyRole.CLIENT)
            for kind in ("error", "data"):
                await pipe.write(opened.open({"streamtype": kind, "port": str(port), "requestid": "0"})[1])
            assert await pipe.read()
        async with asyncio.timeout(DEADLINE_S):
            with suppress(ConnectionError):
                while await pipe.read():
                    pass
        pipe.writer.transport.abort()


async def test_a_port_of_ipv6_alone_is_found(api: ApiNode, way: Way) -> None:
    try:
        listener = listening(echo, "::1")
        async with listener as port, way(api) as client:
            data, _ = await forwarded(client, port, "0")
            await data.write(b"six")
            assert await data.read() == b"six"
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")


async def test_streams_that_make_no_sense_are_reset(api: ApiNode) -> None:
    async with listening(echo) as port, forwarding(api) as client:
        for headers in (
            {},
            {"streamtype": "data"},
            {"streamtype": "data", "port": "0"},
            {"streamtype": "data", "port": "65536"},
            {"streamtype": "data", "port": "1 "},
            {"streamtype": "stdin", "port": "80"},
        ):
            stream = await client.open(headers)
            with pytest.raises(ConnectionResetError):
                await stream.read()
        pair = [await client.open({"streamtype": "data", "port": str(port), "requestid": "r"}) for _ in range(2)]
        for stream in pair:
            with pytest.raises(ConnectionResetError):
                await stream.read()


async def test_a_client_without_ids_of_requests_is_understood(api: ApiNode) -> None:
    async with listening(echo) as port, forwarding(api) as client:
        await (await client.open({"streamtype": "error", "port": str(port)})).end()
        data = await client.open({"streamtype": "data", "port": str(port)})
        await data.write(b"old")
        assert await data.read() == b"old"


async def test_a_client_that_breaks_the_protocol_is_disconnected(api: ApiNode) -> None:
    answer, pipe = await ask(api, "portforward", PORT_FORWARD)
    assert answer.status == 101
    await pipe.write(b"\x80\x03\x00\x01\x00\xff\xff\xff")  # a control frame of 16 MB
    async with asyncio.timeout(DEADLINE_S):
        assert await pipe.read() == b""
    pipe.writer.transport.abort()


@pytest.mark.parametrize(
    ("versions", "status", "words"),
    [((), 400, "X-Stream-Protocol-Version is required"), (("v9.k8s.io",), 403, "server accepts [portforward.k8s.io]")],
)
async def test_a_client_that_speaks_something_else_is_refused(
    api: ApiNode, versions: tuple[str, ...], status: int, words: str
) -> None:
    answer, pipe = await ask(api, "portforward", *versions)
    pipe.writer.transport.abort()
    assert answer.status == status
    assert words in answer.body["message"]


async def test_without_an_upgrade_it_is_refused(api: ApiNode) -> None:
    for method in ("GET", "POST"):
        response = await asyncio.to_thread(api.node.client._http.request, method, f"{PODS}/p/portforward")
        assert response.status == 400
        assert b"Upgrade request required" in response.body


# --- channels of WebSocket -------------------------------------------------------------------------------------------


async def message(connection: Tunnel) -> bytes:
    received = b""
    while isinstance(event := await connection.event(), BytesMessage):
        received += event.data
        if event.message_finished:
            return received
    assert isinstance(event, CloseConnection), event
    return b""


async def test_channels_carry_named_ports(api: ApiNode) -> None:
    """As the Python client and kr8s do: the first message of each channel tells its port, little end first."""
    async with listening(echo) as one, listening(echo) as two, asyncio.timeout(DEADLINE_S):
        said_again = {"name": "p", "namespace": "default", "_preload_content": "false"}
        offers = ("v5.channel.k8s.io", "v4.channel.k8s.io")
        answer, connection = await tunnel(api, *offers, ports=f"{one},{two}", **said_again)
        assert isinstance(answer, AcceptConnection)
        assert answer.subprotocol == "v4.channel.k8s.io"
        heads = [await message(connection) for _ in range(4)]
        ports = [struct.pack("<H", port) for port in (one, one, two, two)]
        assert heads == [bytes([channel]) + port for channel, port in enumerate(ports)]
        await connection.write(b"\x02" + MEGABYTE + b"!")  # more than a megabyte in one message
        received = b""
        while len(received) <= len(MEGABYTE):
            part = await message(connection)
            assert part[0] == 2
            received += part[1:]
        assert received == MEGABYTE + b"!"
        connection.writer.transport.abort()


async def test_channels_end_with_the_last_connection(api: ApiNode) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")

    async with listening(greet) as port, asyncio.timeout(DEADLINE_S):
        _, connection = await tunnel(api, "v4.channel.k8s.io", ports=str(port))
        assert [await message(connection) for _ in range(4)][2:] == [b"\x00hello", b""]
        connection.writer.transport.abort()


async def test_channels_tell_of_a_port_where_nothing_listens(api: ApiNode) -> None:
    async with asyncio.timeout(DEADLINE_S):
        _, connection = await tunnel(api, ports=str(free_port()))
        words = [await message(connection) for _ in range(4)][2:]
        assert words[0].startswith(b"\x01error forwarding port ")
        assert words[1] == b""
        connection.writer.transport.abort()


@pytest.mark.parametrize("sent", [b"\x01x", b"\x07x"], ids=["words", "unknown"])
async def test_a_channel_that_no_client_has_ends_the_connection(api: ApiNode, sent: bytes) -> None:
    async with listening(echo) as port, asyncio.timeout(DEADLINE_S):
        _, connection = await tunnel(api, "v4.channel.k8s.io", ports=str(port))
        await connection.write(sent)
        while isinstance(event := await connection.event(), BytesMessage):
            pass
        assert isinstance(event, CloseConnection)
        assert event.code == 1002
        connection.writer.transport.abort()


@pytest.mark.parametrize("query", [{}, {"ports": ""}, {"ports": "0"}, {"ports": "80,http"}, {"ports": "1," * 99 + "1"}])
async def test_ports_that_are_none_are_refused(api: ApiNode, query: dict[str, str]) -> None:
    answer, connection = await tunnel(api, "v4.channel.k8s.io", **query)
    connection.writer.transport.abort()
    assert isinstance(answer, RejectConnection)
    assert answer.status_code == 400
