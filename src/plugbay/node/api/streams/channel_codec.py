"""Messages of WebSocket with the streams of a command or a container, on the node's side.

Source: RFC 6455; see `plugbay.node.api.streams.channels`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Message, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from plugbay.documents import Json
from plugbay.node.api.streams.channels import StreamChannel
from plugbay.node.api.streams.exec_status import exit_status, failed_status
from plugbay.node.api.streams.terminal_sizes import terminal_size
from plugbay.runtimes.exec_input import TerminalSize
from plugbay.runtimes.port import ExecExit, ExecOutput

_NORMAL: Final = 1000
_PROTOCOL_ERROR: Final = 1002
_MOST_WORDS: Final = 120
_MAX_MESSAGE: Final = 1024 * 1024


class Reply(NamedTuple):
    """Bytes that the protocol has sent back at once."""

    content: bytes


class ChannelCodec:
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
