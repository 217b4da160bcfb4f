"""Rules of RFC 9113 about streams and their states."""

from __future__ import annotations

from typing import Final

import pytest

from plugbay.wire.http2 import frames
from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.http2.connection import Http2Limits
from plugbay.wire.http2.events import (
    ConnectionFailed,
    HeadersReceived,
    StreamReset,
)
from plugbay.wire.http2.frames import frame
from tests.unit.wire.http2.peers import (
    REQUEST,
    REQUEST_FIELDS,
    RESPONSE,
    TRAILERS,
    data,
    greeted,
    headers,
    rst,
    settings,
)
from tests.unit.wire.http2.rule_parts import REFUSED, C, ended, sent_by

CLOSED: Final = ErrorCode.STREAM_CLOSED


@pytest.mark.parametrize("sent", [headers(1, TRAILERS, ends=True), data(1, b"x")])
def test_5_1_frames_after_the_end_of_both_end_the_connection(sent: bytes) -> None:
    *_, last = ended().receive(sent)
    assert isinstance(last, ConnectionFailed)
    assert last.code == CLOSED


@pytest.mark.parametrize(
    "sent", [rst(1), frames.window_update(1, 1), frame(frames.PRIORITY, 0, 1, bytes(5)), frames.window_update(1, 0)]
)
def test_5_1_what_may_cross_the_end_is_let_pass(sent: bytes) -> None:
    server = ended()
    assert server.receive(sent) == []
    assert server.take() == b""


@pytest.mark.parametrize("sent", [headers(1, TRAILERS, ends=True), data(1, b"x"), data(1, b"", ends=True)])
def test_5_1_frames_after_the_peers_end_reset_the_stream(sent: bytes) -> None:
    server = greeted()
    server.receive(headers(1, ends=True))
    assert server.receive(sent) == [StreamReset(1, CLOSED, by_peer=False)]


@pytest.mark.parametrize("sent", [headers(1, TRAILERS, ends=True), data(1, b"x")])
def test_5_1_frames_after_the_peers_reset_are_an_error_of_the_stream(sent: bytes) -> None:
    server = greeted()
    server.receive(headers(1) + rst(1))
    assert server.receive(sent) == []
    assert list(sent_by(server, frames.RST_STREAM)) == [(1, CLOSED.to_bytes(4))]


@pytest.mark.parametrize(
    "sent", [headers(1, TRAILERS, ends=True), data(1, b"x", ends=True), rst(1), frames.window_update(1, 1)]
)
def test_5_1_frames_that_cross_our_reset_are_ignored(sent: bytes) -> None:
    server = greeted()
    server.receive(headers(1))
    server.reset(1, ErrorCode.CANCEL)
    server.take()
    assert server.receive(sent) == []
    assert server.take() == b""


def test_4_3_blocks_that_cross_our_reset_are_decoded() -> None:
    server = greeted()
    server.receive(headers(1))
    server.reset(1, ErrorCode.CANCEL)
    indexing = bytes((0x40, 1)) + b"x" + bytes((1,)) + b"y"
    server.receive(headers(1, indexing, ends=True))
    assert server.receive(headers(3, REQUEST + b"\xbe", ends=True)) == [
        HeadersReceived(3, (*REQUEST_FIELDS, (b"x", b"y")), ends=True)
    ]


def test_5_1_1_lower_streams_are_closed_by_higher_ones() -> None:
    server = greeted()
    server.receive(headers(5))
    assert server.receive(rst(3)) == []
    *_, last = server.receive(data(3, b"x"))
    assert isinstance(last, ConnectionFailed)
    assert last.code == CLOSED


def test_5_1_2_streams_above_the_limit_are_refused() -> None:
    server = greeted(limits=Http2Limits(max_streams=2))
    assert len(server.receive(headers(1) + headers(3, ends=True) + headers(5))) == 2
    assert list(sent_by(server, frames.RST_STREAM)) == [(5, REFUSED.to_bytes(4))]
    server.send_headers(3, RESPONSE, ends=True)
    assert server.receive(headers(7)) == [HeadersReceived(7, REQUEST_FIELDS, ends=False)]


def test_5_1_2_a_client_opens_no_more_than_it_may() -> None:
    client = greeted(C)
    client.receive(settings((3, 1)))
    stream = client.open(REQUEST, ends=True)
    assert not client.can_open
    with pytest.raises(RuntimeError):
        client.open(REQUEST)
    client.receive(headers(stream, RESPONSE, ends=True))
    assert client.can_open


def test_5_1_a_reset_is_remembered_longer_than_other_streams_last() -> None:
    """What crosses our reset is ignored, however many streams end meanwhile, and however many of them are others."""
    client = greeted(C)
    slow = client.open(REQUEST, ends=True)
    client.reset(slow, ErrorCode.CANCEL)
    for _ in range(5000):
        stream = client.open(REQUEST, ends=True)
        client.receive(headers(stream, RESPONSE, ends=True))
    assert client.receive(headers(slow, RESPONSE) + data(slow, b"late", ends=True)) == []
