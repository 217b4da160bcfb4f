"""Rules that a peer breaks or keeps, one by one, by section of RFC 9113."""

from __future__ import annotations

from typing import Final

import pytest

from plugbay.wire.http2 import frames
from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.http2.connection import Http2Connection, Http2Limits, Role
from plugbay.wire.http2.events import (
    ConnectionFailed,
    DataReceived,
    Event,
    HeadersReceived,
    SettingsReceived,
    StreamReset,
)
from plugbay.wire.http2.frames import ACK, END_HEADERS, END_STREAM, PADDED, PREFACE, PRIORITY_FLAG, frame
from plugbay.wire.http2.header_blocks import encode
from tests.unit.wire.http2.peers import (
    REQUEST,
    REQUEST_FIELDS,
    RESPONSE,
    RESPONSE_FIELDS,
    SETTINGS,
    TRAILERS,
    Clock,
    data,
    greeted,
    headers,
    rst,
    settings,
    split,
)
from tests.unit.wire.http2.rule_parts import PROTOCOL, REFUSED, C, ended, sent_by

S: Final = Role.SERVER
SIZE: Final = ErrorCode.FRAME_SIZE_ERROR
FLOW: Final = ErrorCode.FLOW_CONTROL_ERROR
COMPRESSION: Final = ErrorCode.COMPRESSION_ERROR
CALM: Final = ErrorCode.ENHANCE_YOUR_CALM

BREACHES: Final = [
    # What a server of ours does when a client sends a frame that ends the connection.
    ("3.4 frames before SETTINGS", S, PREFACE + headers(1), PROTOCOL),
    ("3.4 SETTINGS with ACK come first", S, PREFACE + frame(frames.SETTINGS, ACK, 0, b""), PROTOCOL),
    ("3.4 a client of HTTP/1.1", S, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", PROTOCOL),
    ("3.4 a preface with a wrong end", S, PREFACE[:-1] + b"x", PROTOCOL),
    ("3.4 a server that begins with PING", C, frame(frames.PING, 0, 0, bytes(8)), PROTOCOL),
    ("4.2 a frame that is too large", None, data(1, bytes(16_385)), SIZE),
    ("4.3 a block that cannot be decoded", S, headers(1, b"\x80"), COMPRESSION),
    ("5.1 DATA on an idle stream", None, data(9), PROTOCOL),
    ("5.1 RST_STREAM on an idle stream", None, rst(9), PROTOCOL),
    ("5.1 WINDOW_UPDATE on an idle stream", None, frames.window_update(9, 1), PROTOCOL),
    ("5.1.1 an even stream", S, headers(2), PROTOCOL),
    ("5.1.1 a lower stream", S, headers(5, ends=True) + headers(3, ends=True), PROTOCOL),
    ("5.1.1 a stream of a server", C, headers(2, RESPONSE), PROTOCOL),
    ("5.1.1 a stream that a client did not open", C, headers(3, RESPONSE), PROTOCOL),
    ("6.1 DATA on stream 0", None, data(0), PROTOCOL),
    ("6.1 more padding than DATA", S, headers(1) + frame(frames.DATA, PADDED, 1, b"\x04abc"), PROTOCOL),
    ("6.1 padded DATA without a length", S, headers(1) + frame(frames.DATA, PADDED, 1, b""), SIZE),
    ("6.2 HEADERS on stream 0", None, headers(0), PROTOCOL),
    ("6.2 more padding than HEADERS", S, frame(frames.HEADERS, END_HEADERS | PADDED, 1, b"\x09abc"), PROTOCOL),
    ("6.2 HEADERS within their priority", S, frame(frames.HEADERS, END_HEADERS | PRIORITY_FLAG, 1, b"abc"), SIZE),
    ("6.2 HEADERS on another stream within a block", S, headers(1, more=True) + headers(3), PROTOCOL),
    ("6.2 PING within a block", S, headers(1, more=True) + frame(frames.PING, 0, 0, bytes(8)), PROTOCOL),
    ("5.5 an unknown frame within a block", S, headers(1, more=True) + frame(0x42, 0, 0, b""), PROTOCOL),
    ("6.3 PRIORITY on stream 0", None, frame(frames.PRIORITY, 0, 0, bytes(5)), PROTOCOL),
    ("6.3 PRIORITY of a wrong size on an idle stream", None, frame(frames.PRIORITY, 0, 9, bytes(4)), SIZE),
    ("6.4 RST_STREAM on stream 0", None, rst(0), PROTOCOL),
    ("6.4 RST_STREAM of a wrong size", S, headers(1) + frame(frames.RST_STREAM, 0, 1, bytes(3)), SIZE),
    ("6.5 SETTINGS on a stream", None, frame(frames.SETTINGS, 0, 1, b""), PROTOCOL),
    ("6.5 SETTINGS of a wrong size", None, frame(frames.SETTINGS, 0, 0, bytes(5)), SIZE),
    ("6.5 SETTINGS with ACK and content", None, frame(frames.SETTINGS, ACK, 0, bytes(6)), SIZE),
    ("6.5.2 ENABLE_PUSH of 2", None, settings((2, 2)), PROTOCOL),
    ("6.5.2 ENABLE_PUSH of a server", C, settings((2, 1)), PROTOCOL),
    ("6.5.2 INITIAL_WINDOW_SIZE too large", None, settings((4, 2**31)), FLOW),
    ("6.5.2 MAX_FRAME_SIZE too small", None, settings((5, 16_383)), PROTOCOL),
    ("6.5.2 MAX_FRAME_SIZE too large", None, settings((5, 2**24)), PROTOCOL),
    ("6.6 PUSH_PROMISE", None, frame(frames.PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2" + REQUEST), PROTOCOL),
    ("6.7 PING on a stream", None, frame(frames.PING, 0, 1, bytes(8)), PROTOCOL),
    ("6.7 PING of a wrong size", None, frame(frames.PING, 0, 0, bytes(7)), SIZE),
    ("6.8 GOAWAY on a stream", None, frame(frames.GOAWAY, 0, 1, bytes(8)), PROTOCOL),
    ("6.8 GOAWAY of a wrong size", None, frame(frames.GOAWAY, 0, 0, bytes(7)), SIZE),
    ("6.8 GOAWAY with a higher stream", None, frames.goaway(1, 0, b"") + frames.goaway(3, 0, b""), PROTOCOL),
    ("6.9 WINDOW_UPDATE of a wrong size", None, frame(frames.WINDOW_UPDATE, 0, 0, bytes(3)), SIZE),
    ("6.9 WINDOW_UPDATE of the connection by 0", None, frames.window_update(0, 0), PROTOCOL),
    ("6.9.1 the connection's window over 2^31-1", None, frames.window_update(0, 2**31 - 1), FLOW),
    (
        "6.9.2 a stream's window over 2^31-1",
        S,
        headers(1) + frames.window_update(1, 2**30) + settings((4, 2**30)),
        FLOW,
    ),
    ("6.10 CONTINUATION of nothing", S, headers(1) + frame(frames.CONTINUATION, END_HEADERS, 1, b""), PROTOCOL),
    (
        *("6.10 CONTINUATION on another stream", S),
        *(headers(1, more=True) + frame(frames.CONTINUATION, END_HEADERS, 3, b""), PROTOCOL),
    ),
]


@pytest.mark.parametrize(
    ("role", "sent", "code", "is_first"),
    [
        pytest.param(role, sent, code, what.startswith("3.4"), id=f"{what}, {role.value}")
        for what, only, sent, code in BREACHES
        for role in ((only,) if only else Role)
    ],
)
def test_a_breach_ends_the_connection(role: Role, sent: bytes, code: ErrorCode, is_first: bool) -> None:
    connection = Http2Connection(role, Http2Limits(), Clock()) if is_first else greeted(role)
    connection.take()
    *_, last = connection.receive(sent)
    assert isinstance(last, ConnectionFailed)
    assert last.code == code
    assert [int.from_bytes(payload[4:8]) for _, payload in sent_by(connection, frames.GOAWAY)] == [code]
    assert connection.receive(frame(frames.PING, 0, 0, bytes(8))) == []
    assert connection.take() == b""
    assert connection.streams == 0
    assert not connection.can_open


def test_3_4_an_answer_in_http_1_is_told() -> None:
    (event,) = Http2Connection(C, Http2Limits(), Clock()).receive(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert isinstance(event, ConnectionFailed)
    assert "HTTP/1" in event.reason


# --- 6: frames ------------------------------------------------------------------------------------------------------


def test_5_5_unknown_frames_and_settings_mean_nothing() -> None:
    server = greeted()
    assert server.receive(frame(0xFA, 0xFF, 1, b"grease") + frame(0x20, 0, 0, b"")) == []
    assert server.receive(settings((0xBABA, 7), (8, 1))) == [SettingsReceived()]


def test_4_1_reserved_bits_mean_nothing() -> None:
    server = greeted()
    reserved = bytearray(headers(1))
    reserved[5] |= 0x80
    assert server.receive(bytes(reserved)) == [HeadersReceived(1, REQUEST_FIELDS, ends=False)]


def test_6_1_padding_is_taken_off_and_given_back() -> None:
    server = greeted(limits=Http2Limits(stream_window=1000))
    server.receive(headers(1))
    for _ in range(20):
        padded = frame(frames.DATA, PADDED, 1, b"\xc8" + b"abc" + bytes(200))
        assert server.receive(padded) == [DataReceived(1, b"abc", ends=False)]
        server.consumed(1, 3)
    assert (
        sum(int.from_bytes(payload) for stream, payload in sent_by(server, frames.WINDOW_UPDATE) if stream == 1) > 3000
    )


def test_6_2_padding_and_priority_of_headers_are_taken_off() -> None:
    server = greeted()
    payload = b"\x07" + b"\x80\0\0\3\x10" + REQUEST + bytes(7)
    sent = frame(frames.HEADERS, END_HEADERS | PADDED | PRIORITY_FLAG | END_STREAM, 1, payload)
    assert server.receive(sent) == [HeadersReceived(1, REQUEST_FIELDS, ends=True)]


def test_6_3_priority_means_nothing_on_any_stream() -> None:
    server = ended()
    for stream in (1, 3, 5, 2):
        assert server.receive(frame(frames.PRIORITY, 0, stream, b"\0\0\0\x07\x10")) == []
    assert server.take() == b""


def test_6_3_priority_of_a_wrong_size_resets_its_stream() -> None:
    assert ended().receive(frame(frames.PRIORITY, 0, 3, bytes(4))) == [StreamReset(3, SIZE, by_peer=False)]


def test_6_4_the_code_of_a_reset_may_be_unknown() -> None:
    assert ended().receive(rst(3, 0xDEADBEEF)) == [StreamReset(3, 0xDEADBEEF, by_peer=True)]


def test_6_5_3_settings_are_acknowledged_each() -> None:
    server = greeted()
    server.receive(SETTINGS * 3)
    assert [flags for kind, flags, *_ in split(server.take()) if kind == frames.SETTINGS] == [ACK] * 3


def test_6_5_2_settings_of_the_peer_are_shown() -> None:
    server = greeted()
    server.receive(settings((1, 0), (2, 0), (3, 7), (4, 1234), (5, 20_000), (6, 999)))
    remote = server.remote
    assert (remote.header_table_size, remote.enable_push, remote.max_streams) == (0, False, 7)
    assert (remote.initial_window, remote.max_frame_bytes, remote.max_header_bytes) == (1234, 20_000, 999)


def test_6_7_pings_are_answered_with_their_payload() -> None:
    server = greeted()
    server.receive(frame(frames.PING, 0, 0, b"12345678"))
    assert list(split(server.take())) == [(frames.PING, ACK, 0, b"12345678")]


def test_6_8_a_client_names_no_stream_of_ours_in_goaway() -> None:
    server = greeted()
    events: list[Event] = server.receive(frames.goaway(2**31 - 1, 0, b"") + headers(1))
    assert [type(event).__name__ for event in events] == ["GoingAway", "HeadersReceived"]


def test_6_8_our_goaway_names_the_last_stream_and_refuses_later_ones() -> None:
    server = greeted()
    server.receive(headers(1))
    server.go_away(last_stream=2**31 - 1)
    server.receive(headers(3))
    server.go_away()
    server.go_away(last_stream=2**31 - 1)
    assert [int.from_bytes(payload[:4]) for _, payload in sent_by(server, frames.GOAWAY)] == [2**31 - 1, 3, 3]
    assert server.receive(headers(5)) == []
    assert list(sent_by(server, frames.RST_STREAM)) == [(5, REFUSED.to_bytes(4))]
    assert server.receive(data(3, b"x", ends=True)) == [DataReceived(3, b"x", ends=True)]


def test_6_10_long_blocks_are_continued_both_ways() -> None:
    fields = (*RESPONSE_FIELDS, (b"x-long", b"x" * 40_000))
    server = greeted(limits=Http2Limits(max_header_bytes=100_000))
    server.receive(headers(1, ends=True))
    server.send_headers(1, encode(fields), ends=True)
    sent = server.take()
    assert [(kind, flags) for kind, flags, *_ in split(sent)] == [
        (frames.HEADERS, END_STREAM),
        (frames.CONTINUATION, 0),
        (frames.CONTINUATION, END_HEADERS),
    ]
    client = greeted(C, Http2Limits(max_header_bytes=100_000))
    client.open(REQUEST, ends=True)
    assert client.receive(sent) == [HeadersReceived(1, fields, ends=True)]


# --- what is forbidden to us ----------------------------------------------------------------------------------------


def test_defects_of_ours_raise() -> None:
    server, client = ended(), greeted(C)
    stream = client.open(REQUEST)
    client.send_data(stream, b"", ends=True)
    for defect in (
        lambda: server.send_headers(5, RESPONSE),
        lambda: server.send_data(3, b"before headers"),
        lambda: server.open(REQUEST),
        lambda: server.consumed(3, 1),
        lambda: server.ping(b"short"),
        lambda: client.send_data(stream, b"after the end"),
        lambda: client.send_headers(stream, TRAILERS, ends=True),
        lambda: client.reset(stream + 2, ErrorCode.CANCEL),
    ):
        with pytest.raises(RuntimeError):
            defect()
    server.send_headers(3, RESPONSE)
    with pytest.raises(RuntimeError):
        server.send_headers(3, RESPONSE)


def test_nothing_is_sent_on_streams_that_the_peer_has_ended() -> None:
    server = ended()
    server.receive(rst(3))
    server.take()
    for stream in (1, 3):
        server.send_headers(stream, RESPONSE)
        server.send_data(stream, b"x", ends=True)
        server.reset(stream, ErrorCode.CANCEL)
    assert server.take() == b""
