"""A client and a server of ours, joined: what gRPC does all day."""

from __future__ import annotations

from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.http2.connection import Http2Limits
from plugbay.wire.http2.events import (
    DataReceived,
    GoingAway,
    HeadersReceived,
    Pong,
    StreamDrained,
    StreamReset,
)
from tests.unit.wire.http2.peers import (
    REQUEST,
    REQUEST_FIELDS,
    RESPONSE,
    RESPONSE_FIELDS,
    TRAILER_FIELDS,
    TRAILERS,
    exchange,
    pair,
)


def test_a_unary_call_takes_one_take_each_way() -> None:
    client, server = pair()
    stream = client.open(REQUEST)
    client.send_data(stream, b"question", ends=True)
    assert server.receive(client.take()) == [
        HeadersReceived(stream, REQUEST_FIELDS, ends=False),
        DataReceived(stream, b"question", ends=True),
    ]
    server.send_headers(stream, RESPONSE)
    server.send_data(stream, b"answer")
    server.send_headers(stream, TRAILERS, ends=True)
    assert client.receive(server.take()) == [
        HeadersReceived(stream, RESPONSE_FIELDS, ends=False),
        DataReceived(stream, b"answer", ends=False),
        HeadersReceived(stream, TRAILER_FIELDS, ends=True),
    ]
    assert client.streams == server.streams == 0
    assert exchange(client, server) == ([], [])


def test_a_large_message_waits_for_windows_with_its_trailers_behind_it() -> None:
    limits = Http2Limits(stream_window=100_000, connection_window=150_000)
    client, server = pair(client=limits)
    stream = client.open(REQUEST, ends=True)
    exchange(client, server)
    message = bytes(range(256)) * 4096
    server.send_headers(stream, RESPONSE)
    server.send_data(stream, message)
    server.send_headers(stream, TRAILERS, ends=True)
    assert server.unsent(stream) == len(message) - limits.stream_window
    received, drained = bytearray(), []
    ended = False
    while not ended:
        for event in client.receive(server.take()):
            if isinstance(event, DataReceived):
                received += event.data
                client.consumed(stream, len(event.data))
            ended = isinstance(event, HeadersReceived) and event.ends
        drained += server.receive(client.take())
    assert received == message
    assert drained == [StreamDrained(stream)]
    assert server.unsent(stream) == 0


def test_a_reset_drops_what_is_queued_and_crosses_what_the_peer_sends() -> None:
    client, server = pair()
    stream = client.open(REQUEST, ends=True)
    exchange(client, server)
    server.send_headers(stream, RESPONSE)
    server.send_data(stream, bytes(100_000))
    client.reset(stream, ErrorCode.CANCEL)
    at_client, at_server = exchange(client, server)
    assert at_client == []
    assert at_server == [StreamReset(stream, ErrorCode.CANCEL, by_peer=True)]
    assert server.unsent(stream) == 0
    server.send_data(stream, b"too late", ends=True)
    server.reset(stream, ErrorCode.CANCEL)
    assert server.take() == b""


def test_pings_come_back() -> None:
    client, server = pair()
    client.ping(b"12345678")
    assert exchange(client, server) == ([Pong(b"12345678")], [])


def test_a_graceful_end_lets_streams_under_way_go_on() -> None:
    client, server = pair()
    stream = client.open(REQUEST)
    exchange(client, server)
    server.go_away(debug=b"stopping")
    crossing = client.open(REQUEST, ends=True)
    at_client, at_server = exchange(client, server)
    assert at_client == [
        GoingAway(stream, ErrorCode.NO_ERROR, b"stopping"),
        StreamReset(crossing, ErrorCode.REFUSED_STREAM, by_peer=True),
    ]
    assert at_server == []
    assert not client.can_open
    client.send_data(stream, b"", ends=True)
    server.send_headers(stream, RESPONSE, ends=True)
    exchange(client, server)
    assert client.streams == server.streams == 0
