"""Rules of RFC 9113 about requests and responses."""

from __future__ import annotations

from typing import Final

import pytest

from plugbay.wire.http2 import frames
from plugbay.wire.http2.events import (
    HeadersReceived,
    StreamReset,
)
from plugbay.wire.http2.header_blocks import encode
from tests.unit.wire.http2.peers import (
    REQUEST,
    REQUEST_FIELDS,
    RESPONSE,
    RESPONSE_FIELDS,
    TRAILER_FIELDS,
    TRAILERS,
    data,
    greeted,
    headers,
)
from tests.unit.wire.http2.rule_parts import PROTOCOL, C, sent_by

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
