"""Logs over WebSocket, for clients that have no other way to read what comes bit by bit.

Source: Kubernetes 1.36 ``apimachinery/pkg/util/httpstream/wsstream/stream.go``.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Final

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from plugbay.node.api.streams.websocket_handshake import WEBSOCKET, accepted
from plugbay.ops.routing import Request, UpgradedStream, UpgradeResponse
from plugbay.ops.tasks import first

_BINARY: Final = "binary.k8s.io"
_BASE64: Final = "base64.binary.k8s.io"
_NORMAL: Final = 1000
_PROTOCOL_ERROR: Final = 1002
_CLIENT_CLOSES_S: Final = 1.0
"""Closing while the client still sends could destroy what it has not read."""


def log_over_websocket(request: Request, chunks: AsyncGenerator[bytes, None]) -> UpgradeResponse:
    """Switch to WebSocket, and send each of ``chunks`` as a message: of bytes, or of text in base64.

    Raises:
        HttpError: 400, the client does not do what the handshake needs, or speaks no subprotocol of ours.
    """
    subprotocol, answers = accepted(request, (_BINARY, _BASE64), otherwise=_BINARY)
    serve = partial(_serve, chunks=chunks, is_text=subprotocol == _BASE64)
    return UpgradeResponse(WEBSOCKET, serve, answers)


async def _serve(stream: UpgradedStream, chunks: AsyncGenerator[bytes, None], *, is_text: bool) -> None:
    """Send the log, until it has ended or the client is gone."""
    connection = Connection(ConnectionType.SERVER)
    try:
        await first(_send(stream, connection, chunks, is_text=is_text), _listen(stream, connection))
    except* ConnectionError:
        pass  # the client is gone


async def _send(
    stream: UpgradedStream, connection: Connection, chunks: AsyncGenerator[bytes, None], *, is_text: bool
) -> None:
    async with aclosing(chunks):
        async for chunk in chunks:
            message = TextMessage(base64.b64encode(chunk).decode()) if is_text else BytesMessage(chunk)
            await stream.write(_frames(connection, message))
    await stream.write(_frames(connection, CloseConnection(_NORMAL)))
    await asyncio.sleep(_CLIENT_CLOSES_S)


async def _listen(stream: UpgradedStream, connection: Connection) -> None:
    """Return when the client closes the connection; messages of clients mean nothing here."""
    try:
        while chunk := await stream.read():
            connection.receive_data(chunk)
            for event in connection.events():
                match event:
                    case Ping():
                        await stream.write(connection.send(event.response()))
                    case CloseConnection():
                        await stream.write(_frames(connection, event.response()))
                        return
    except RemoteProtocolError as error:
        await stream.write(_frames(connection, CloseConnection(_PROTOCOL_ERROR, str(error))))


def _frames(connection: Connection, event: Event) -> bytes:
    try:
        return connection.send(event)
    except LocalProtocolError:
        return b""  # the client has closed the connection
