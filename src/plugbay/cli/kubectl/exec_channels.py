"""A command in a container as kubectl reaches it: the client's side of ``v5.channel.k8s.io`` over WebSocket.

Imported when a command is run: wsproto is an extra. Source: RFC 6455; Kubernetes 1.36
``client-go/tools/remotecommand/websocket.go``, ``errorstream.go``, ``v4.go`` (errorDecoderV4).
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError, generate_accept_token

from plugbay.errors import NodeUnreachable
from plugbay.node.api.streams.channels import V5, StreamChannel
from plugbay.ops.http_client import Upgraded
from plugbay.printers import v1

_CHUNK: Final = 64 * 1024
_CANNOT_RUN_EXIT_CODE: Final = 126
"""A shell's for a program that it cannot run."""
_OUTPUTS: Final = (StreamChannel.STDOUT, StreamChannel.STDERR)
_MAX_STATUS: Final = 1024 * 1024


class WebSocketOffer:
    """A handshake of WebSocket.

    Attributes:
        headers: those that ask for the switch of protocols.
    """

    def __init__(self) -> None:
        key = base64.b64encode(os.urandom(16))
        self._token = generate_accept_token(key).decode()
        self.headers = {
            "Sec-WebSocket-Key": key.decode(),
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Protocol": V5,
        }

    def is_accepted(self, answer: Mapping[str, str]) -> bool:
        """Whether the headers of an answer, their names in lower case, agree to what was asked for."""
        return (answer.get("sec-websocket-accept"), answer.get("sec-websocket-protocol")) == (self._token, V5)


class Printed(NamedTuple):
    """Output of a command.

    Attributes:
        channel: STDOUT or STDERR; with a terminal all is STDOUT.
    """

    channel: StreamChannel
    chunk: bytes


class CommandEnd(NamedTuple):
    """The end of a command.

    Attributes:
        exit_code: 126 if it could not be run.
        problem: why it could not be run; empty if it ran.
    """

    exit_code: int
    problem: str = ""


class CommandConnection:
    """The node's end of a command.

    Args:
        address: the node's, for errors.

    Attributes:
        socket: to be waited on. If it does not block, `receive` does not either.
        is_open: whether more can come.
        unsent: what is to be written to the socket.
    """

    def __init__(self, upgraded: Upgraded, address: str) -> None:
        self.socket = upgraded.connection
        self.is_open = True
        self.unsent = bytearray()
        self._address = address
        self._early = upgraded.received
        self._protocol = Connection(ConnectionType.CLIENT)
        self._channel: StreamChannel | None = None
        self._status = b""
        self._ended: CommandEnd | None = None
        self._last_words = ""

    def give(self, chunk: bytes) -> None:
        """Queue input; empty bytes are its end."""
        if chunk:
            self._queue(StreamChannel.STDIN, chunk)
        else:
            self._queue(StreamChannel.CLOSE, bytes([StreamChannel.STDIN]))

    def resize(self, size: os.terminal_size) -> None:
        """Queue the size of our terminal."""
        self._queue(StreamChannel.RESIZE, json.dumps({"Width": size.columns, "Height": size.lines}).encode())

    def receive(self) -> Iterator[Printed]:
        """Read once and yield the output that has come.

        Raises:
            NodeUnreachable: the connection broke off, or something else comes.
        """
        try:
            chunk, self._early = self._early or self.socket.recv(_CHUNK), b""
        except BlockingIOError:
            return
        except ConnectionError:
            chunk = b""
        if not chunk:
            self.is_open = False
            if self._ended is None:
                raise NodeUnreachable(self._address, "the connection broke off")
            return
        try:
            self._protocol.receive_data(chunk)
            for event in self._protocol.events():
                yield from self._printed(event)
        except (RemoteProtocolError, ValueError) as error:
            raise NodeUnreachable(self._address, f"what it sends about the command cannot be read: {error}") from error

    def end(self) -> CommandEnd:
        """The end of the command, when all has been received.

        Raises:
            NodeUnreachable: the node did not tell it.
        """
        if self._ended is None:
            reason = f": {self._last_words}" if self._last_words else ""
            raise NodeUnreachable(self._address, f"it did not say how the command ended{reason}")
        return self._ended

    def _queue(self, channel: StreamChannel, payload: bytes) -> None:
        self._queue_event(BytesMessage(bytes([channel]) + payload))

    def _queue_event(self, event: BytesMessage | CloseConnection | Pong) -> None:
        try:
            self.unsent += self._protocol.send(event)
        except LocalProtocolError:
            pass  # the node has closed the connection

    def _printed(self, event: Event) -> Iterator[Printed]:
        match event:
            case BytesMessage(data):
                yield from self._part(bytes(data), is_last=event.message_finished)
            case TextMessage():
                raise ValueError("a message is text")
            case CloseConnection(_, reason):
                self.is_open = False
                self._last_words = reason or ""
                self._queue_event(event.response())
            case Ping():
                self._queue_event(event.response())

    def _part(self, part: bytes, *, is_last: bool) -> Iterator[Printed]:
        """Read a part of a message: output is passed on at once, the Status when it is whole."""
        if self._channel is None and part:
            self._channel, part = _channel(part[0]), part[1:]
        match self._channel:
            case StreamChannel.STDOUT | StreamChannel.STDERR as channel:
                yield Printed(channel, part)
            case StreamChannel.ERROR:
                self._status += part
                if len(self._status) > _MAX_STATUS:
                    raise ValueError(f"the Status takes more than {_MAX_STATUS} bytes")
                if is_last and self._status:
                    self._ended = _ended(self._status)
        if is_last:
            self._channel = None


def _channel(number: int) -> StreamChannel:
    if number in (*_OUTPUTS, StreamChannel.ERROR):
        return StreamChannel(number)
    raise ValueError(f"a node has no channel {number}")


def _ended(text: bytes) -> CommandEnd:
    """Read a Status.

    Raises:
        ValueError: it is not JSON.
    """
    status = json.loads(text)
    if v1.text(status, "status") == "Success":
        return CommandEnd(0)
    for cause in v1.objects(status, "details", "causes"):
        code = v1.text(cause, "message")
        if v1.text(cause, "reason") == "ExitCode" and code.isascii() and code.isdigit():
            return CommandEnd(int(code))
    return CommandEnd(_CANNOT_RUN_EXIT_CODE, v1.text(status, "message") or "the command cannot be run")
