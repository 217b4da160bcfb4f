"""The client's side of commands in containers, over a socket pair."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.utilities import generate_accept_token

from plugbay.cli.kubectl.exec_channels import CommandConnection, CommandEnd, Printed, WebSocketOffer
from plugbay.errors import NodeUnreachable
from plugbay.node.api.streams.channels import StreamChannel
from plugbay.node.api.streams.exec_status import exit_status, failed_status
from plugbay.ops.http_client import Upgraded


class Peer:
    """A node, and what it has been told so far."""

    def __init__(self, node: socket.socket, client: socket.socket) -> None:
        self.socket = node
        self.protocol = Connection(ConnectionType.SERVER)
        self.client = CommandConnection(Upgraded({}, client, b""), "/n/plugbay.sock")

    def message(self, channel: int, payload: bytes, *, is_last: bool = True) -> bytes:
        return self.protocol.send(BytesMessage(bytes([channel]) + payload, message_finished=is_last))

    def status(self, status: object) -> bytes:
        return self.message(StreamChannel.ERROR, json.dumps(status).encode())

    def close(self, code: int = 1000, reason: str = "") -> bytes:
        return self.protocol.send(CloseConnection(code, reason))

    def play(self, content: bytes, *, size: int = 65536) -> list[Printed]:
        """Send ``content`` in pieces, then nothing more; returns what the client reads of it."""
        printed: list[Printed] = []
        for start in range(0, len(content), size):
            self.socket.send(content[start : start + size])
            printed += self.client.receive()
        self.socket.close()
        while self.client.is_open:
            printed += self.client.receive()
        return printed

    def told(self) -> list[object]:
        """The messages that the client has queued."""
        self.protocol.receive_data(bytes(self.client.unsent))
        return [each.data if isinstance(each, BytesMessage) else each for each in self.protocol.events()]


@pytest.fixture
def peer() -> Iterator[Peer]:
    node, client = socket.socketpair()
    with node, client:
        yield Peer(node, client)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_messages_may_be_cut_anywhere(peer: Peer, size: int) -> None:
    sent = peer.message(1, b"out") + peer.message(2, b"") + peer.message(2, b"err\x00\xff")
    printed = peer.play(sent + peer.status(exit_status(7)) + peer.close(), size=size)
    for channel, content in ((StreamChannel.STDOUT, b"out"), (StreamChannel.STDERR, b"err\x00\xff")):
        assert b"".join(each.chunk for each in printed if each.channel is channel) == content
    assert peer.client.end() == CommandEnd(7)


def test_a_message_may_have_several_parts(peer: Peer) -> None:
    sent = peer.message(1, b"", is_last=False)
    sent += peer.protocol.send(BytesMessage(b"la", message_finished=False)) + peer.protocol.send(BytesMessage(b"te"))
    printed = peer.play(sent + peer.status(exit_status(0)) + peer.close())
    assert b"".join(each.chunk for each in printed) == b"late"
    assert peer.client.end() == CommandEnd(0)


@pytest.mark.parametrize(
    ("status", "end"),
    [
        (exit_status(0), CommandEnd(0)),
        (exit_status(255), CommandEnd(255)),
        (failed_status("there is no cat"), CommandEnd(126, "there is no cat")),
        ({"status": "Failure"}, CommandEnd(126, "the command cannot be run")),
        (
            {"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "x"}]}, "message": "m"},
            CommandEnd(126, "m"),
        ),
        ([], CommandEnd(126, "the command cannot be run")),
    ],
)
def test_the_status_tells_the_end(peer: Peer, status: object, end: CommandEnd) -> None:
    assert peer.play(peer.status(status) + peer.close()) == []
    assert peer.client.end() == end


def test_a_connection_may_end_behind_the_status(peer: Peer) -> None:
    assert peer.play(peer.status(exit_status(3))) == []
    assert peer.client.end() == CommandEnd(3)


@pytest.mark.parametrize(("reason", "told"), [("", ""), ("a client has no channel 2", ": a client has no channel 2")])
def test_an_end_without_a_status_is_an_error(peer: Peer, reason: str, told: str) -> None:
    peer.play(peer.message(1, b"some") + peer.close(1002, reason))
    with pytest.raises(NodeUnreachable, match=re.escape(f"it did not say how the command ended{told})")):
        peer.client.end()


def test_half_a_message_is_a_broken_connection(peer: Peer) -> None:
    with pytest.raises(NodeUnreachable, match="the connection broke off"):
        peer.play(peer.message(1, b"output")[:-1])


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (BytesMessage(b"\x09x"), "a node has no channel 9"),
        (BytesMessage(b"\x00x"), "a node has no channel 0"),
        (BytesMessage(b"\x03{"), "cannot be read"),
        (BytesMessage(b"\x03" + b" " * 1024 * 1024 * 2), "the Status takes more than"),
        (TextMessage("\x01x"), "a message is text"),
    ],
    ids=["unknown", "input", "status", "long", "text"],
)
def test_what_no_node_sends_is_an_error(peer: Peer, event: BytesMessage | TextMessage, problem: str) -> None:
    with pytest.raises(NodeUnreachable, match=problem):
        peer.play(peer.protocol.send(event)[:2_000_000], size=60_000)


def test_bytes_that_are_not_websocket_are_an_error(peer: Peer) -> None:
    peer.play(b"\xff" * 100)
    with pytest.raises(NodeUnreachable, match="it did not say how the command ended: Invalid opcode"):
        peer.client.end()


def test_input_its_end_and_sizes_are_messages(peer: Peer) -> None:
    peer.client.give(b"x\xff")
    peer.client.resize(os.terminal_size((132, 43)))
    peer.client.give(b"")
    assert peer.told() == [b"\x00x\xff", b'\x04{"Width": 132, "Height": 43}', b"\xff\x00"]


def test_a_ping_and_the_end_are_answered(peer: Peer) -> None:
    peer.play(peer.protocol.send(Ping(b"there?")) + peer.close())
    pong, close = peer.told()
    assert (pong, isinstance(close, CloseConnection)) == (Pong(b"there?"), True)
    peer.client.unsent.clear()
    peer.client.give(b"too late")
    assert not peer.client.unsent


def test_an_answer_is_to_the_key_of_the_offer() -> None:
    offer = WebSocketOffer()
    token = generate_accept_token(offer.headers["Sec-WebSocket-Key"].encode()).decode()
    answer = {"sec-websocket-accept": token, "sec-websocket-protocol": "v5.channel.k8s.io"}
    assert offer.is_accepted(answer)
    assert not offer.is_accepted(answer | {"sec-websocket-protocol": "v4.channel.k8s.io"})
    assert not WebSocketOffer().is_accepted(answer)
