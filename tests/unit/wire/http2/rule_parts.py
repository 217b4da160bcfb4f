"""What the tests of rules share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.http2.connection import Http2Connection, Role
from tests.unit.wire.http2.peers import (
    RESPONSE,
    greeted,
    headers,
    split,
)

C: Final = Role.CLIENT
PROTOCOL: Final = ErrorCode.PROTOCOL_ERROR
REFUSED: Final = ErrorCode.REFUSED_STREAM


def sent_by(connection: Http2Connection, kind: int) -> Iterator[tuple[int, bytes]]:
    return ((stream, payload) for found, _, stream, payload in split(connection.take()) if found == kind)


def ended() -> Http2Connection:
    """A server with stream 1 ended by both sides, and 3 open."""
    server = greeted()
    server.receive(headers(1, ends=True) + headers(3))
    server.send_headers(1, RESPONSE, ends=True)
    server.take()
    return server
