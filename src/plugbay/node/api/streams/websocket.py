"""Containers over WebSocket, as kubectl and client libraries speak it: channels in binary messages.

Source: Kubernetes 1.36 ``apimachinery/pkg/util/httpstream/wsstream``, ``client-go/tools/remotecommand/websocket.go``;
RFC 6455.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from enum import IntEnum
from functools import partial
from typing import Final

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Message, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from plugbay.documents import Json
from plugbay.errors import ExecFailed, InstanceNotFound, InstanceUnreadable
from plugbay.node.api.streams.exec_session import Reply, SessionOutput, serve_session
from plugbay.node.api.streams.exec_status import exit_status, failed_status
from plugbay.node.api.streams.terminal_sizes import terminal_size
from plugbay.node.api.streams.websocket_handshake import accepted
from plugbay.ops.routing import Request, UpgradeResponse
from plugbay.runtimes.exec_input import ExecInput, TerminalSize
from plugbay.runtimes.port import ExecExit, ExecOutput

_V5: Final = "v5.channel.k8s.io"
_SUBPROTOCOLS: Final = (_V5, "v4.channel.k8s.io")
_NORMAL: Final = 1000
_PROTOCOL_ERROR: Final = 1002
_MOST_WORDS: Final = 120
_MAX_MESSAGE: Final = 1024 * 1024
_CLIENT_CLOSES_S: Final = 1.0
"""Closing while the client still sends could destroy what it has not read."""


class StreamChannel(IntEnum):
    """The first byte of a message: the stream that the others belong to."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    """The Status at the end."""
    RESIZE = 4
    CLOSE = 255
    """The end of the stream that the second byte names; since version 5."""


def over_websocket(request: Request, output: SessionOutput, given: ExecInput) -> UpgradeResponse:
    """Switch to WebSocket, and pass ``output`` to the client and its input to ``given``.

    Raises:
        HttpError: 400, the client does not do what the handshake needs, or speaks no subprotocol of ours.
    """
    subprotocol, answers = accepted(request, _SUBPROTOCOLS)
    codec = _Codec(has_half_close=subprotocol == _V5)
    frames = _messages(output, codec)
    return UpgradeResponse("websocket", partial(serve_session, frames=frames, given=given, decoder=codec), answers)


async def _messages(output: SessionOutput, codec: _Codec) -> AsyncGenerator[bytes, None]:
    """The output and the end of the command; then the client has a moment to close the connection on its side."""
    try:
        async with aclosing(output) as items:
            async for item in items:
                yield codec.encode(item)
    except (ExecFailed, InstanceNotFound, InstanceUnreadable) as error:
        yield codec.failed(str(error))
    yield codec.close()
    await asyncio.sleep(_CLIENT_CLOSES_S)


class _Codec:
    """Turns output into messages, and messages into input."""

    def __init__(self, *, has_half_close: bool) -> None:
        self._has_half_close = has_half_close
        self._connection = Connection(ConnectionType.SERVER)
        self._message = bytearray()

    # --- to the client ----------------------------------------------------------------------------------------------

    def encode(self, item: ExecOutput | ExecExit) -> bytes:
        match item:
            case ExecOutput(stream, chunk):
                return self._send(StreamChannel(stream.value), chunk)
            case ExecExit(code):
                return self._status(exit_status(code))

    def failed(self, problem: str) -> bytes:
        """The end of a command that could not be run."""
        return self._status(failed_status(problem))

    def close(self) -> bytes:
        """The end of the connection."""
        try:
            return self._connection.send(CloseConnection(_NORMAL))
        except LocalProtocolError:
            return b""  # the client has closed it

    def _status(self, status: Json) -> bytes:
        return self._send(StreamChannel.ERROR, json.dumps(status).encode())

    def _send(self, channel: StreamChannel, payload: bytes) -> bytes:
        try:
            return self._connection.send(Message(data=bytes([channel]) + payload))
        except LocalProtocolError:
            return b""

    # --- from the client --------------------------------------------------------------------------------------------

    def feed(self, chunk: bytes) -> Iterator[bytes | TerminalSize | Reply]:
        """The input in ``chunk``, and what has to be answered; empty bytes are the end of the input.

        Raises:
            ValueError: the client does not speak WebSocket, or uses a channel that is not a client's.
            ConnectionError: the client has closed the connection.
        """
        try:
            self._connection.receive_data(chunk)
            for event in self._connection.events():
                match event:
                    case BytesMessage() | TextMessage():
                        yield from self._received(event)
                    case Ping():
                        yield Reply(self._connection.send(event.response()))
                    case CloseConnection():
                        raise ConnectionAbortedError("the client has closed the connection")
        except RemoteProtocolError as error:
            raise ValueError(str(error)) from error

    def refusal(self, problem: str) -> bytes:
        """The last words to a client that has broken the protocol."""
        try:
            return self._connection.send(CloseConnection(_PROTOCOL_ERROR, problem[:_MOST_WORDS]))
        except LocalProtocolError:
            return b""

    def _received(self, event: BytesMessage | TextMessage) -> Iterator[bytes | TerminalSize]:
        data = event.data
        self._message += data.encode() if isinstance(data, str) else data
        if len(self._message) > _MAX_MESSAGE:
            raise ValueError(f"a message is larger than {_MAX_MESSAGE} bytes")
        if not event.message_finished:
            return
        message, self._message = bytes(self._message), bytearray()
        if not message:
            return
        match message[0], message[1:]:
            case StreamChannel.STDIN, payload:
                if payload:
                    yield payload
            case StreamChannel.RESIZE, payload:
                yield terminal_size(payload)
            case StreamChannel.CLOSE, payload if self._has_half_close:
                if payload == bytes([StreamChannel.STDIN]):
                    yield b""
            case channel, _:
                raise ValueError(f"a client has no channel {channel}")
