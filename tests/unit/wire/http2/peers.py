"""Connections for tests: pairs of them that are joined, single ones whose peer the test plays, and frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from plugbay.wire.http2 import frames
from plugbay.wire.http2.connection import Http2Connection, Http2Limits, Role
from plugbay.wire.http2.events import Event
from plugbay.wire.http2.frames import ACK, END_HEADERS, END_STREAM, HEAD, frame
from plugbay.wire.http2.header_blocks import encode

REQUEST_FIELDS: Final = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/v1beta1.DevicePlugin/Allocate"),
    (b":authority", b"localhost"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
)
RESPONSE_FIELDS: Final = ((b":status", b"200"), (b"content-type", b"application/grpc"))
TRAILER_FIELDS: Final = ((b"grpc-status", b"0"),)
REQUEST: Final = encode(REQUEST_FIELDS)
RESPONSE: Final = encode(RESPONSE_FIELDS)
TRAILERS: Final = encode(TRAILER_FIELDS)

SETTINGS: Final = frame(frames.SETTINGS, 0, 0, b"")
SETTINGS_ACK: Final = frame(frames.SETTINGS, ACK, 0, b"")
PREFACE_AND_SETTINGS: Final = frames.PREFACE + SETTINGS
GREETING: Final = {Role.SERVER: PREFACE_AND_SETTINGS + SETTINGS_ACK, Role.CLIENT: SETTINGS + SETTINGS_ACK}
"""The first bytes of the peer of a connection in each role."""


class Clock:
    """Time that goes on only by hand, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def greeted(
    role: Role = Role.SERVER, limits: Http2Limits | None = None, clock: Callable[[], float] | None = None
) -> Http2Connection:
    """A connection whose peer, played by the test, has sent its preface and acknowledged ours."""
    connection = Http2Connection(role, limits or Http2Limits(), clock or Clock())
    connection.receive(GREETING[role])
    connection.take()
    return connection


def pair(
    client: Http2Limits | None = None, server: Http2Limits | None = None
) -> tuple[Http2Connection, Http2Connection]:
    """A client and a server that know each other's settings."""
    ends = (
        Http2Connection(Role.CLIENT, client or Http2Limits(), Clock()),
        Http2Connection(Role.SERVER, server or Http2Limits(), Clock()),
    )
    exchange(*ends)
    return ends


def exchange(client: Http2Connection, server: Http2Connection) -> tuple[list[Event], list[Event]]:
    """Carry bytes to and fro until there are none; return the events of both."""
    at_client, at_server = list[Event](), list[Event]()
    while True:
        up, down = client.take(), server.take()
        if not up and not down:
            return at_client, at_server
        at_server += server.receive(up)
        at_client += client.receive(down)


def headers(stream: int, block: bytes = REQUEST, *, ends: bool = False, more: bool = False) -> bytes:
    """HEADERS; with ``more``, CONTINUATION has to follow."""
    return frame(frames.HEADERS, END_STREAM * ends | END_HEADERS * (not more), stream, block)


def data(stream: int, content: bytes = b"", *, ends: bool = False) -> bytes:
    return frame(frames.DATA, END_STREAM * ends, stream, content)


def rst(stream: int, code: int = 8) -> bytes:
    return frames.rst_stream(stream, code)


def settings(*pairs: tuple[int, int]) -> bytes:
    payload = b"".join(number.to_bytes(2) + value.to_bytes(4) for number, value in pairs)
    return frame(frames.SETTINGS, 0, 0, payload)


def split(sent: bytes) -> Iterable[tuple[int, int, int, bytes]]:
    """The frames in ``sent``, without a client's preface: kind, flags, stream, payload."""
    sent = sent.removeprefix(frames.PREFACE)
    at = 0
    while at < len(sent):
        word, flags, stream = HEAD.unpack_from(sent, at)
        start = at + HEAD.size
        at = start + (word >> 8)
        assert at <= len(sent)
        yield word & 0xFF, flags, stream, sent[start:at]
