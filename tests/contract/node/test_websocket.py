"""Commands in containers over WebSocket, as kubectl and client libraries send and read them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

from tests.contract.rigs.node_run import DEADLINE_S, PODS, Node, running_node

V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i", "command": ["sleep", "1000"]}]},
}


@pytest.fixture
async def node(sockets: Path) -> AsyncIterator[Node]:
    async with running_node(sockets) as node:
        await node.create(POD)
        await node.pod_in("p", "Running")
        yield node
        await node.gone("p", gracePeriodSeconds="0")


class Client:
    """One command's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.protocol = WSConnection(ConnectionType.CLIENT)
        self._reader = reader
        self._writer = writer
        self._events: list[Event] = []

    def send(self, event: Event) -> None:
        self._writer.write(self.protocol.send(event))

    def message(self, channel: int, payload: bytes = b"") -> None:
        self.send(BytesMessage(bytes([channel]) + payload))

    async def next(self) -> Event:
        """The next event; a message is whole.

        Raises:
            ConnectionError: the connection is closed.
        """
        message = b""
        while isinstance(event := await self._next_part(), BytesMessage):
            message += event.data
            if event.message_finished:
                return BytesMessage(message)
        return event

    async def _next_part(self) -> Event:
        async with asyncio.timeout(DEADLINE_S):
            while not self._events:
                if not (received := await self._reader.read(65536)):
                    raise ConnectionResetError
                self.protocol.receive_data(received)
                self._events += self.protocol.events()
        return self._events.pop(0)

    async def until(self, channel: int) -> bytes:
        """What comes on other channels is read over."""
        while True:
            event = await self.next()
            assert isinstance(event, BytesMessage), event
            if event.data[0] == channel:
                return bytes(event.data[1:])

    async def refusal(self) -> Any:
        """The Status that a request was refused with."""
        refused = await self.next()
        assert isinstance(refused, RejectConnection)
        assert refused.status_code == 400
        body = b""
        while isinstance(part := await self.next(), RejectData):
            body += part.data
            if part.body_finished:
                break
        return json.loads(body)

    async def finish(self) -> tuple[bytes, bytes, Any]:
        """Standard output, standard error and the Status at the end."""
        received = {STDOUT: b"", STDERR: b"", ERROR: b""}
        while not isinstance(event := await self.next(), CloseConnection):
            assert isinstance(event, BytesMessage), event
            received[event.data[0]] += bytes(event.data[1:])
        assert event.code == 1000
        self.send(event.response())
        return received[STDOUT], received[STDERR], json.loads(received[ERROR])


@asynccontextmanager
async def upgrading(socket: Path, target: str, *offers: str) -> AsyncIterator[Client]:
    """A client that has asked for WebSocket."""
    reader, writer = await asyncio.open_unix_connection(socket)
    client = Client(reader, writer)
    try:
        client.send(Request(host="localhost", target=target, subprotocols=list(offers)))
        yield client
    finally:
        writer.transport.abort()


@asynccontextmanager
async def asking(node: Node, *command: str, offers: tuple[str, ...] = (V5, V4), **query: str) -> AsyncIterator[Client]:
    """A client that has asked for the command to be run."""
    words = urlencode([*(("command", word) for word in command), *query.items()])
    async with upgrading(node.config.control_socket, f"{PODS}/p/exec?{words}", *offers) as client:
        yield client


@asynccontextmanager
async def attached(socket: Path, pod: str, *, version: str = V5, **query: str) -> AsyncIterator[Client]:
    words = urlencode({"stdout": "true", "stderr": "true", **query})
    async with upgrading(socket, f"{PODS}/{pod}/attach?{words}", version) as client:
        answer = await client.next()
        assert isinstance(answer, AcceptConnection), answer
        assert answer.subprotocol == version
        yield client


@asynccontextmanager
async def running(node: Node, *command: str, version: str = V5, **query: str) -> AsyncIterator[Client]:
    async with asking(node, *command, offers=(version,), stdout="true", stderr="true", **query) as client:
        answer = await client.next()
        assert isinstance(answer, AcceptConnection), answer
        assert answer.subprotocol == version
        yield client


@pytest.mark.parametrize("version", [V4, V5])
async def test_output_and_success(node: Node, version: str) -> None:
    async with running(node, "sh", "-c", "echo out; echo err >&2", version=version) as client:
        out, err, status = await client.finish()
        assert (out, err) == (b"out\n", b"err\n")
        assert status == {"metadata": {}, "status": "Success"}


async def test_an_exit_code_is_told_as_a_cause(node: Node) -> None:
    async with running(node, "sh", "-c", "exit 7") as client:
        _, _, status = await client.finish()
        assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


async def test_a_command_that_cannot_run_is_told_in_words(node: Node) -> None:
    async with running(node, "no-such-program") as client:
        _, _, status = await client.finish()
        assert (status["status"], status["code"]) == ("Failure", 500)
        assert "no-such-program" in status["message"]


async def test_input_ends_by_itself(node: Node) -> None:
    async with running(node, "cat", stdin="true") as client:
        client.message(STDIN, b"one ")
        client.message(STDIN, b"two")
        client.message(CLOSE, bytes([STDIN]))
        assert (await client.finish())[0] == b"one two"


async def test_much_goes_both_ways_whole(node: Node) -> None:
    sent = bytes(range(256)) * 4000
    async with running(node, "cat", stdin="true") as client, asyncio.TaskGroup() as tasks:
        received = tasks.create_task(client.finish())
        for start in range(0, len(sent), 32768):
            client.message(STDIN, sent[start : start + 32768])
            await asyncio.sleep(0)
        client.message(CLOSE, bytes([STDIN]))
        assert (await received)[0] == sent


async def test_without_input_it_is_empty(node: Node) -> None:
    async with running(node, "cat") as client:
        assert (await client.finish())[0] == b""


async def test_a_terminal_has_the_size_of_the_clients(node: Node) -> None:
    async with running(node, "sh", "-c", "read line; stty size", stdin="true", tty="true") as client:
        client.message(RESIZE, b'{"Width": 91, "Height": 37}')
        client.message(STDIN, b"go\n")
        assert b"37 91" in (await client.finish())[0]


async def test_a_ping_is_answered(node: Node) -> None:
    async with running(node, "sleep", "1000") as client:
        client.send(Ping(b"there?"))
        assert await client.next() == Pong(b"there?")


async def test_a_client_that_leaves_ends_the_command(node: Node, tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    async with running(node, "sh", "-c", f"trap 'touch {ended}' EXIT HUP TERM; echo $$; sleep 1000") as client:
        pid = int(await client.until(STDOUT))
        client.send(CloseConnection(1000))
    async with asyncio.timeout(DEADLINE_S):
        while Path(f"/proc/{pid}").exists():  # noqa: ASYNC110 - another process's end, of which nothing tells us
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("channel", "payload"),
    [(STDOUT, b"x"), (9, b""), (RESIZE, b"{}x"), (RESIZE, b'{"Width": -1, "Height": 1}')],
)
async def test_what_no_client_sends_ends_the_session(node: Node, channel: int, payload: bytes) -> None:
    async with running(node, "sleep", "1000", stdin="true") as client:
        client.message(channel, payload)
        closed = await client.next()
        assert isinstance(closed, CloseConnection)
        assert closed.code == 1002
        assert closed.reason


async def test_bytes_that_are_not_websocket_end_the_session(node: Node) -> None:
    async with running(node, "sleep", "1000") as client:
        client._writer.write(b"\xff" * 100)
        async with asyncio.timeout(DEADLINE_S):
            while await client._reader.read(65536):
                pass


# --- logs -----------------------------------------------------------------------------------------------------------


BINARY, BASE64 = "binary.k8s.io", "base64.binary.k8s.io"


@asynccontextmanager
async def reading(node: Node, name: str, *offers: str, **query: str) -> AsyncIterator[Client]:
    """A client that reads a log."""
    async with upgrading(node.config.control_socket, f"{PODS}/{name}/log?{urlencode(query)}", *offers) as client:
        answer = await client.next()
        assert isinstance(answer, AcceptConnection), answer
        assert answer.subprotocol == (offers[0] if offers else None)
        yield client


async def printing(node: Node, script: str) -> None:
    """A second pod, whose container runs ``script``."""
    spec = {"containers": [{"name": "c", "image": "i", "command": ["sh", "-c", script]}], "restartPolicy": "Never"}
    await node.create({**POD, "metadata": {"name": "q"}, "spec": spec})


@pytest.mark.parametrize("offers", [(), (BINARY,), (BASE64,)])
async def test_a_log_is_read(node: Node, offers: tuple[str, ...]) -> None:
    await printing(node, "echo one; echo two")
    await node.pod_in("q", "Succeeded")
    expected = b"one\ntwo\n"
    async with reading(node, "q", *offers) as client:
        received = b""
        while not isinstance(event := await client.next(), CloseConnection):
            if offers == (BASE64,):
                assert isinstance(event, TextMessage)
                received += base64.b64decode(event.data)
            else:
                assert isinstance(event, BytesMessage)
                received += event.data
        assert (received, event.code) == (expected, 1000)
    await node.gone("q", gracePeriodSeconds="0")


async def test_a_log_is_followed_until_the_client_leaves(node: Node) -> None:
    await printing(node, "echo one; exec sleep 1000")
    await node.pod_in("q", "Running")
    async with reading(node, "q", BINARY, follow="true") as client:
        assert await client.next() == BytesMessage(b"one\n")
        client.send(BytesMessage(b"nobody reads this"))
        client.send(Ping(b"there?"))
        assert await client.next() == Pong(b"there?")
        client.send(CloseConnection(1000))
        assert isinstance(await client.next(), CloseConnection)
    async with reading(node, "q", follow="true") as client:
        assert isinstance(await client.next(), BytesMessage)
        client._writer.write(b"\xff" * 100)
        broken = await client.next()
        assert isinstance(broken, CloseConnection)
        assert broken.code == 1002
    await node.gone("q", gracePeriodSeconds="0")


async def test_a_log_has_no_other_protocols(node: Node) -> None:
    async with upgrading(node.config.control_socket, f"{PODS}/p/log", V5) as client:
        assert (await client.refusal())["reason"] == "BadRequest"


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("command", "offers"), [((), (V5,)), (("true",), ("v9.channel.k8s.io",)), (("true",), ())])
async def test_a_request_that_cannot_be_served_is_refused(
    node: Node, command: tuple[str, ...], offers: tuple[str, ...]
) -> None:
    async with asking(node, *command, offers=offers) as client:
        assert (await client.refusal())["reason"] == "BadRequest"
