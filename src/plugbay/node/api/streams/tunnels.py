"""Bytes of another protocol in the binary messages of WebSocket, as kubectl since 1.31 forwards ports.

Source: Kubernetes 1.36 ``client-go/tools/portforward/tunneling_connection.go``; KEP 4006.
"""

from __future__ import annotations

from typing import Final

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from plugbay.ops.routing import UpgradedStream

_NORMAL: Final = 1000


class TunnelledConnection:
    """A `plugbay.wire.spdy.session.BytePipe` within WebSocket; where one message ends and another begins is nothing."""

    def __init__(self, connection: UpgradedStream) -> None:
        self._connection = connection
        self._protocol = Connection(ConnectionType.SERVER)

    async def read(self) -> bytes:
        """Wait for bytes and return them; empty at the end.

        Raises:
            ConnectionError: the client does not speak WebSocket, or sends text.
        """
        while received := await self._connection.read():
            content = b""
            try:
                self._protocol.receive_data(received)
                for event in self._protocol.events():
                    match event:
                        case BytesMessage(data):
                            content += data
                        case Ping():
                            await self._connection.write(self._protocol.send(event.response()))
                        case TextMessage():
                            raise ConnectionAbortedError("the client sends text")
                        case CloseConnection():
                            return b""
            except RemoteProtocolError as error:
                raise ConnectionAbortedError(str(error)) from error
            if content:
                return content
        return b""

    async def write(self, chunk: bytes) -> None:
        await self._connection.write(self._frame(BytesMessage(chunk)))

    async def close(self) -> None:
        """Tell the client that this is the end."""
        await self._connection.write(self._frame(CloseConnection(_NORMAL)))

    def _frame(self, event: BytesMessage | CloseConnection) -> bytes:
        try:
            return self._protocol.send(event)
        except LocalProtocolError:  # the client has closed it
            return b""
