"""Rules that a peer breaks or keeps, one by one, by section of RFC 9113."""

from __future__ import annotations

from collections.abc import Iterator
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
    TRAILER_FIELDS,
    TRAILERS,
    Clock,
    data,
    greeted,
    headers,
    rst,
    settings,
    split,
)

C: Final = Role.CLIENT
S: Final = Role.SERVER
PROTOCOL: Final = ErrorCode.PROTOCOL_ERROR
SIZE: Final = ErrorCode.FRAME_SIZE_ERROR
FLOW: Final = ErrorCode.FLOW_CONTROL_ERROR
CLOSED: Final = ErrorCode.STREAM_CLOSED
COMPRESSION: Final = ErrorCode.COMPRESSION_ERROR
REFUSED: Final = ErrorCode.REFUSED_STREAM
CALM: Final = ErrorCode.ENHANCE_YOUR_CALM

MALFORMED: Final = [
    ("no path", (*REQUEST_FIELDS[:2], *REQUEST_FIELDS[3:])),
    ("no method", REQUEST_FIELDS[1:]),
    ("no scheme", (REQUEST_FIELDS[0], *REQUEST_FIELDS[2:])),
    ("an empty path", (*REQUEST_FIELDS[:2], (b":path", b""), *REQUEST_FIELDS[3:])),
    ("a pseudo-header twice", (REQUEST_FIELDS[0], *REQUEST_FIELDS)),
    ("a pseudo-header after others", (*REQUEST_FIELDS[:3], REQUEST_FIELDS[5], REQUEST_FIELDS[3])),
    ("an unknown pseudo-header", (*REQUEST_FIELDS[:4], (b":protocol", b"x"))),
    ("a status in a request", (*REQUEST_FIELDS[:4], (b":status", b"200"))),
    ("CONNECT with a path", ((b":method", b"CONNECT"), *REQUEST_FIELDS[1:4])),
    ("a name with capitals", (*REQUEST_FIELDS, (b"Name", b"x"))),
    ("a name with a blank", (*REQUEST_FIELDS, (b"na me", b"x"))),
    ("a name with a line break", (*REQUEST_FIELDS, (b"na\nme", b"x"))),
    ("a name with a colon", (*REQUEST_FIELDS, (b"na:me", b"x"))),
    ("a name beyond ASCII", (*REQUEST_FIELDS, (b"na\xc3\xa4me", b"x"))),
    ("an empty name", (*REQUEST_FIELDS, (b"", b"x"))),
    ("an empty name between others", (*REQUEST_FIELDS, (b"", b"x"), (b"a", b"x"))),
    ("NUL in a value", (*REQUEST_FIELDS, (b"name", b"\0"))),
    ("CR in a value", (*REQUEST_FIELDS, (b"name", b"a\rb"))),
    ("LF in a value", (*REQUEST_FIELDS, (b"name", b"a\nb"))),
    ("LF in a pseudo-header", (*REQUEST_FIELDS[:2], (b":path", b"/\n"), *REQUEST_FIELDS[3:])),
    ("connection", (*REQUEST_FIELDS, (b"connection", b"close"))),
    ("proxy-connection", (*REQUEST_FIELDS, (b"proxy-connection", b"close"))),
    ("keep-alive", (*REQUEST_FIELDS, (b"keep-alive", b"1"))),
    ("transfer-encoding", (*REQUEST_FIELDS, (b"transfer-encoding", b"chunked"))),
    ("upgrade", (*REQUEST_FIELDS, (b"upgrade", b"h2c"))),
    ("te: gzip", (*REQUEST_FIELDS[:5], (b"te", b"gzip"))),
    ("te twice, once wrong", (*REQUEST_FIELDS, (b"te", b"gzip"))),
    ("content-length without a number", (*REQUEST_FIELDS, (b"content-length", b"x"))),
    ("content-length twice", (*REQUEST_FIELDS, (b"content-length", b"1"), (b"content-length", b"2"))),
    ("a negative content-length", (*REQUEST_FIELDS, (b"content-length", b"-1"))),
    ("trailers only", TRAILER_FIELDS),
    ("a response", RESPONSE_FIELDS),
]

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


def sent_by(connection: Http2Connection, kind: int) -> Iterator[tuple[int, bytes]]:
    return ((stream, payload) for found, _, stream, payload in split(connection.take()) if found == kind)


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


@pytest.mark.parametrize("fields", [pytest.param(fields, id=what) for what, fields in MALFORMED])
def test_8_1_1_a_malformed_request_resets_its_stream_only(fields: tuple[tuple[bytes, bytes], ...]) -> None:
    server = greeted()
    assert server.receive(headers(1, encode(fields))) == []
    assert list(sent_by(server, frames.RST_STREAM)) == [(1, PROTOCOL.to_bytes(4))]
    assert server.receive(data(1, b"on its way")) == []
    assert server.receive(headers(3)) == [HeadersReceived(3, REQUEST_FIELDS, ends=False)]
    assert server.streams == 1


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param((*REQUEST_FIELDS, (b"te", b"Trailers")), id="te in capitals"),
        pytest.param((*REQUEST_FIELDS, (b"x", b"a  ")), id="8.2.1 blanks at the end, as grpc-go sends them"),
        pytest.param((*REQUEST_FIELDS, (b"x", b"\xff\x80")), id="bytes beyond ASCII"),
        pytest.param((*REQUEST_FIELDS, (b"x", b"")), id="an empty value"),
        pytest.param((*REQUEST_FIELDS, (b"x", b"1"), (b"x", b"2")), id="a field twice"),
        pytest.param(REQUEST_FIELDS[:3], id="no authority"),
        pytest.param(((b":method", b"CONNECT"), (b":authority", b"a")), id="8.5 CONNECT"),
        pytest.param((*reversed(REQUEST_FIELDS[:4]), *REQUEST_FIELDS[4:]), id="pseudo-headers in any order"),
    ],
)
def test_8_3_1_well_formed_requests(fields: tuple[tuple[bytes, bytes], ...]) -> None:
    assert greeted().receive(headers(1, encode(fields), ends=True)) == [HeadersReceived(1, fields, ends=True)]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(encode([(b":status", b"20")]), id="8.3.2 two digits"),
        pytest.param(encode([(b":status", b"abc")]), id="8.3.2 letters"),
        pytest.param(encode([(b":status", b"200"), (b":status", b"200")]), id="8.3.2 twice"),
        pytest.param(encode([(b":status", b"200"), (b":path", b"/")]), id="8.3.2 with a path"),
        pytest.param(encode([(b"content-type", b"x")]), id="8.3.2 none"),
        pytest.param(encode([(b":status", b"101")]), id="8.6 switching protocols"),
        pytest.param(REQUEST, id="8.1 a request"),
    ],
)
def test_8_1_1_a_malformed_response_resets_its_stream(block: bytes) -> None:
    client = greeted(C)
    stream = client.open(REQUEST)
    assert client.receive(headers(stream, block)) == [StreamReset(stream, PROTOCOL, by_peer=False)]
    assert list(sent_by(client, frames.RST_STREAM)) == [(stream, PROTOCOL.to_bytes(4))]
    assert client.streams == 0


def test_8_1_interim_responses_are_left_out() -> None:
    client = greeted(C)
    stream = client.open(REQUEST, ends=True)
    hints = encode([(b":status", b"103"), (b"link", b"x")])
    assert client.receive(headers(stream, hints) * 3) == []
    assert client.receive(headers(stream, RESPONSE)) == [HeadersReceived(stream, RESPONSE_FIELDS, ends=False)]
    assert client.receive(headers(stream, hints)) == [StreamReset(stream, PROTOCOL, by_peer=False)]


def test_8_1_an_interim_response_does_not_end_a_stream() -> None:
    client = greeted(C)
    stream = client.open(REQUEST, ends=True)
    interim = headers(stream, encode([(b":status", b"100")]), ends=True)
    assert client.receive(interim) == [StreamReset(stream, PROTOCOL, by_peer=False)]


def test_8_1_trailers_have_to_end_the_stream() -> None:
    server = greeted()
    server.receive(headers(1) + headers(3))
    assert server.receive(headers(1, TRAILERS, ends=True)) == [HeadersReceived(1, TRAILER_FIELDS, ends=True)]
    assert server.receive(headers(3, TRAILERS)) == [StreamReset(3, PROTOCOL, by_peer=False)]


def test_8_1_trailers_have_no_pseudo_headers() -> None:
    server = greeted()
    server.receive(headers(1))
    assert server.receive(headers(1, REQUEST, ends=True)) == [StreamReset(1, PROTOCOL, by_peer=False)]


def test_8_1_data_comes_after_headers() -> None:
    client = greeted(C)
    stream = client.open(REQUEST)
    assert client.receive(data(stream, b"x")) == [StreamReset(stream, PROTOCOL, by_peer=False)]


@pytest.mark.parametrize(
    ("sent", "is_right"),
    [
        (data(1, b"abc", ends=True), True),
        (data(1, b"ab") + data(1, b"c", ends=True), True),
        (data(1, b"abc") + headers(1, TRAILERS, ends=True), True),
        (data(1, b"abcd"), False),
        (data(1, b"ab", ends=True), False),
        (data(1, b"ab") + headers(1, TRAILERS, ends=True), False),
    ],
)
def test_8_1_1_content_length_is_true(sent: bytes, is_right: bool) -> None:
    server = greeted()
    server.receive(headers(1, encode([*REQUEST_FIELDS, (b"content-length", b"3")])))
    *_, last = server.receive(sent)
    assert (last != StreamReset(1, PROTOCOL, by_peer=False)) is is_right
    assert server.streams == is_right


def test_8_1_1_content_length_of_a_message_without_content() -> None:
    server, client = greeted(), greeted(C)
    assert server.receive(headers(1, encode([*REQUEST_FIELDS, (b"content-length", b"3")]), ends=True)) == []
    stream = client.open(REQUEST)
    unmodified = ((b":status", b"304"), (b"content-length", b"3"))
    assert client.receive(headers(stream, encode(unmodified), ends=True)) == [HeadersReceived(stream, unmodified, True)]


# --- 5.1: states ----------------------------------------------------------------------------------------------------


def ended() -> Http2Connection:
    """A server with stream 1 ended by both sides, and 3 open."""
    server = greeted()
    server.receive(headers(1, ends=True) + headers(3))
    server.send_headers(1, RESPONSE, ends=True)
    server.take()
    return server


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
