"""Peers that mean harm: the connection ends with the right code, after a bounded amount of work and memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import pytest

from plugbay.wire.http2 import frames
from plugbay.wire.http2.budgets import CHEAP_BURST, CHEAP_PER_S, MOST_ANSWERS, RESET_BURST, RESETS_PER_S
from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.http2.connection import Http2Connection, Http2Limits, Role
from plugbay.wire.http2.events import ConnectionFailed, DataReceived, HeadersReceived, StreamReset
from plugbay.wire.http2.frames import END_HEADERS, PADDED, frame
from plugbay.wire.http2.header_blocks import MAX_FIELDS, encode
from tests.unit.wire.http2.peers import (
    REQUEST,
    RESPONSE,
    SETTINGS,
    SETTINGS_ACK,
    Clock,
    data,
    greeted,
    headers,
    rst,
    settings,
    split,
)

CALM: Final = ErrorCode.ENHANCE_YOUR_CALM
PING: Final = frame(frames.PING, 0, 0, bytes(8))

CHEAP: Final = {
    "CVE-2019-9512 PING": PING,
    "CVE-2019-9512 PING with ACK": frame(frames.PING, frames.ACK, 0, bytes(8)),
    "CVE-2019-9515 SETTINGS": SETTINGS,
    "CVE-2019-9515 SETTINGS with values": settings((4, 1), (4, 65_535)),
    "RFC 9113 10.5 SETTINGS with ACK": SETTINGS_ACK,
    "CVE-2019-9513 PRIORITY": frame(frames.PRIORITY, 0, 1, b"\0\0\0\3\x10"),
    "CVE-2019-9513 PRIORITY of idle streams": frame(frames.PRIORITY, 0, 99, b"\0\0\0\3\x10"),
    "CVE-2019-9518 empty DATA": data(1),
    "CVE-2019-9518 DATA of padding alone": frame(frames.DATA, PADDED, 1, b"\x05" + bytes(5)),
    "RFC 9113 10.5 WINDOW_UPDATE of the connection": frames.window_update(0, 1),
    "RFC 9113 10.5 WINDOW_UPDATE of a stream": frames.window_update(1, 1),
    "RFC 9113 10.5 unknown frames": frame(0xFA, 0, 1, b"x" * 100),
    "RFC 9113 10.5 GOAWAY": frames.goaway(0, 0, b"x" * 100),
}


@pytest.mark.parametrize("sent", [pytest.param(sent, id=what) for what, sent in CHEAP.items()])
@pytest.mark.parametrize("role", Role)
def test_a_flood_of_cheap_frames(role: Role, sent: bytes) -> None:
    clock = Clock()
    connection = greeted(role, clock=clock)
    if role is Role.CLIENT:
        connection.open(REQUEST)
        connection.receive(headers(1, RESPONSE))
    else:
        connection.receive(headers(1))
    clock.now = 100.0
    for _ in range(CHEAP_BURST):
        assert not is_over(connection, sent)
        connection.take()
    assert is_over(connection, sent)


def is_over(connection: Http2Connection, sent: bytes) -> bool:
    """Whether ``sent`` is too much."""
    events = connection.receive(sent)
    if not events or not isinstance(events[-1], ConnectionFailed):
        return False
    assert events[-1].code == CALM
    *_, (kind, _, _, payload) = split(connection.take())
    assert (kind, int.from_bytes(payload[4:8])) == (frames.GOAWAY, CALM)
    return True


def test_cheap_frames_may_come_for_ever_at_a_slow_rate() -> None:
    clock = Clock()
    server = greeted(clock=clock)
    for _ in range(10 * CHEAP_BURST):
        clock.now += 1 / CHEAP_PER_S
        assert not is_over(server, PING)
        server.take()


def test_cheap_frames_that_go_with_data_may_come_for_ever() -> None:
    """grpc-go and C-core answer DATA by WINDOW_UPDATE and PING, however much there is of it."""
    server = greeted()
    server.receive(headers(1))
    for _ in range(10 * CHEAP_BURST):
        assert not is_over(server, data(1, b"x") + frames.window_update(0, 1) + PING)
        server.consumed(1, 1)
        server.take()


def test_cheap_frames_that_answer_data_of_ours_may_come_for_ever() -> None:
    server = greeted()
    server.receive(headers(1, ends=True))
    server.send_headers(1, RESPONSE)
    for _ in range(10 * CHEAP_BURST):
        server.send_data(1, b"x")
        assert not is_over(server, frames.window_update(0, 1) + PING)
        server.take()


def test_cve_2023_44487_rapid_reset() -> None:
    server, streams = greeted(), iter(range(1, 10_000, 2))
    for _ in range(RESET_BURST):
        number = next(streams)
        assert not is_over(server, headers(number) + rst(number))
    number = next(streams)
    assert is_over(server, headers(number) + rst(number))


def test_cve_2023_44487_resets_may_come_for_ever_at_a_slow_rate() -> None:
    clock = Clock()
    server = greeted(clock=clock)
    for number in range(1, 20 * RESET_BURST, 2):
        clock.now += 1 / RESETS_PER_S
        assert not is_over(server, headers(number) + rst(number))
        server.take()


MADE_TO_RESET: Final[dict[str, Callable[[int], bytes]]] = {
    "WINDOW_UPDATE by 0": lambda number: headers(number) + frames.window_update(number, 0),
    "a window over 2^31-1": lambda number: headers(number) + frames.window_update(number, 2**31 - 1),
    "DATA after the end": lambda number: headers(number, ends=True) + data(number, b"x"),
    "HEADERS after the end": lambda number: headers(number, ends=True) + headers(number, ends=True),
    "PRIORITY of a wrong size": lambda number: headers(number) + frame(frames.PRIORITY, 0, number, b""),
    "a malformed request": lambda number: headers(number, RESPONSE),
    "DATA after a reset": lambda number: headers(number) + rst(number) + data(number, b"x"),
}


@pytest.mark.parametrize("made", [pytest.param(made, id=what) for what, made in MADE_TO_RESET.items()])
def test_cve_2025_8671_made_you_reset(made: Callable[[int], bytes]) -> None:
    server = greeted()
    over = (number for number in range(1, 10_000, 2) if is_over(server, made(number)))
    assert next(over) <= 2 * RESET_BURST + 1


def test_cve_2023_44487_streams_above_the_limit() -> None:
    server = greeted(limits=Http2Limits(max_streams=1))
    server.receive(headers(1))
    over = (number for number in range(3, 10_000, 2) if is_over(server, headers(number)))
    assert next(over) == 3 + 2 * RESET_BURST


def test_a_server_may_reset_all_that_a_client_opens() -> None:
    """Each of them is a stream of ours: a server that refuses work is not an abuser."""
    client = greeted(Role.CLIENT)
    for _ in range(20 * RESET_BURST):
        stream = client.open(REQUEST)
        assert client.receive(rst(stream, 7)) == [StreamReset(stream, 7, by_peer=True)]
        client.take()


def test_cve_2019_9512_answers_that_are_not_read() -> None:
    """A peer that has all the time in the world, and never reads."""
    clock = Clock()
    server = greeted(clock=clock)
    for _ in range(MOST_ANSWERS):
        clock.now += 1
        assert not is_over(server, PING)
    assert is_over(server, PING)


def test_cve_2019_9517_data_of_ours_waits_for_the_peers_windows() -> None:
    """What is sent is bounded by the windows, and what is queued is what the layer above has given."""
    server = greeted()
    server.receive(headers(1, ends=True))
    server.send_headers(1, RESPONSE)
    for _ in range(100):
        server.send_data(1, bytes(10_000))
    assert len(server.take()) < 70_000
    assert server.unsent(1) == 1_000_000 - 65_535
    server.receive(rst(1))
    assert server.unsent(1) == 0


# --- header blocks --------------------------------------------------------------------------------------------------


def continuation(stream: int, piece: bytes, *, ends: bool = False) -> bytes:
    return frame(frames.CONTINUATION, END_HEADERS * ends, stream, piece)


@pytest.mark.parametrize("size", [0, 1, 1000, 16_384])
def test_cve_2024_27316_continuation_without_an_end(size: int) -> None:
    limits = Http2Limits(max_header_bytes=20_000)
    server = greeted(limits=limits)
    assert not is_over(server, headers(1, b"\x00\x01x", more=True))
    pieces = 0
    while not is_over(server, continuation(1, bytes(size))):
        pieces += 1
        assert pieces * size <= limits.max_header_bytes
        assert pieces < 100


def test_rfc_9113_6_10_blocks_in_many_pieces_are_read() -> None:
    server = greeted()
    pieces = [REQUEST[at : at + 3] for at in range(0, len(REQUEST), 3)]
    sent = headers(1, pieces[0], more=True) + b"".join(continuation(1, piece) for piece in pieces[1:-1])
    (event,) = server.receive(sent + continuation(1, pieces[-1], ends=True))
    assert isinstance(event, HeadersReceived)


def test_rfc_9113_10_5_1_a_list_that_is_too_large() -> None:
    server = greeted(limits=Http2Limits(max_header_bytes=1000))
    assert is_over(server, headers(1, REQUEST + encode([(b"x", b"x" * 1000)])))


def test_rfc_9113_10_5_1_a_block_in_one_frame_that_is_too_large() -> None:
    server = greeted(limits=Http2Limits(max_header_bytes=1000, max_frame_bytes=2**24 - 1))
    assert is_over(server, headers(1, REQUEST + encode([(b"x", b"x" * 2**20)])))


def test_cve_2016_6581_hpack_bomb() -> None:
    """A large field in the table, and a block that names it ten thousand times: 40 MB in 14 kB."""
    server = greeted(limits=Http2Limits(max_header_bytes=16_384))
    large = b"\x40\x01x" + b"\x7f" + bytes((0xA1, 0x1E)) + b"y" * 4000
    assert not is_over(server, headers(1, REQUEST + large, ends=True))
    assert is_over(server, headers(3, REQUEST + b"\xbe" * 10_000, ends=True))


def test_rfc_7541_7_3_very_many_tiny_fields() -> None:
    server = greeted(limits=Http2Limits(max_header_bytes=1_000_000, max_frame_bytes=2**20))
    assert not is_over(server, headers(1, REQUEST + b"\x90" * (MAX_FIELDS - 6)))
    assert is_over(server, headers(3, REQUEST + b"\x90" * (MAX_FIELDS - 5)))


@pytest.mark.parametrize(
    "block", [pytest.param(b"\xff" * 10_000, id="5.1 a number"), pytest.param(b"\x20" * 10_000, id="4.2 table sizes")]
)
def test_rfc_7541_endless(block: bytes) -> None:
    (event,) = greeted().receive(headers(1, block))
    assert isinstance(event, ConnectionFailed)
    assert event.code == ErrorCode.COMPRESSION_ERROR


def test_cve_2020_11080_settings_with_very_many_values() -> None:
    server = greeted(limits=Http2Limits(max_frame_bytes=2**24 - 1))
    assert not is_over(server, settings(*[(4, 65_535)] * 100))
    assert is_over(server, settings(*[(4, 65_535)] * 101))


def test_cve_2019_9516_fields_without_names() -> None:
    server, over = greeted(), 0
    for number in range(1, 10_000, 2):
        over += 1
        if is_over(server, headers(number, REQUEST + b"\0\0\0" * 10)):
            break
    assert over == RESET_BURST + 1


# --- windows --------------------------------------------------------------------------------------------------------


def test_rfc_9113_6_9_more_data_than_the_stream_takes() -> None:
    server = greeted(limits=Http2Limits(stream_window=100, connection_window=1_000_000))
    server.receive(headers(1) + headers(3))
    server.receive(data(1, bytes(100)))
    assert server.receive(data(1, b"x")) == [StreamReset(1, ErrorCode.FLOW_CONTROL_ERROR, by_peer=False)]
    assert server.receive(data(3, bytes(100))) == [DataReceived(3, bytes(100), ends=False)]


def test_rfc_9113_6_9_more_data_than_the_connection_takes() -> None:
    server = greeted(limits=Http2Limits(stream_window=1_000_000))
    server.receive(headers(1) + data(1, bytes(16_384)) * 3 + data(1, bytes(16_383)))
    (event,) = server.receive(data(1, b"x"))
    assert isinstance(event, ConnectionFailed)
    assert event.code == ErrorCode.FLOW_CONTROL_ERROR


def test_rfc_9113_5_1_data_on_a_reset_stream_counts_and_is_given_back() -> None:
    server = greeted()
    server.receive(headers(1))
    server.reset(1, ErrorCode.CANCEL)
    for _ in range(100):
        assert server.receive(data(1, bytes(16_384))) == []
    given = sum(int.from_bytes(payload) for kind, *_, payload in split(server.take()) if kind == frames.WINDOW_UPDATE)
    assert given >= 100 * 16_384 - 65_535


def test_cve_2019_9511_windows_of_one_byte_take_time_in_proportion() -> None:
    """A peer that lets through byte by byte: as many frames as it sends, nothing quadratic, and not for ever."""
    clock = Clock()
    server = greeted(clock=clock)
    server.receive(settings((4, 0)) + headers(1, ends=True))
    server.send_headers(1, RESPONSE)
    server.send_data(1, bytes(16 << 20))
    clock.now += 1000
    started = time.process_time()
    for _ in range(CHEAP_BURST):
        assert not is_over(server, frames.window_update(1, 1))
    assert time.process_time() - started < 1
    assert server.unsent(1) == (16 << 20) - CHEAP_BURST
    assert is_over(server, frames.window_update(1, 1))


def test_cve_2019_9511_settings_that_let_through_a_byte_of_every_stream() -> None:
    """Each of them makes us send a frame on each of a hundred streams; the windows only grow, so it goes on."""
    server, sent = greeted(), 0
    server.receive(settings((4, 0)))
    for number in range(1, 200, 2):
        server.receive(headers(number, ends=True))
        server.send_headers(number, RESPONSE)
        server.send_data(number, bytes(100_000))
    while not is_over(server, settings((4, sent + 1))):
        sent += 1
        assert sent <= CHEAP_BURST // 50


def test_rfc_9113_10_5_a_frame_byte_by_byte_takes_time_in_proportion() -> None:
    """A frame of 16 MiB in small pieces: what is gathered is not copied for each."""
    limits = Http2Limits(max_frame_bytes=2**24 - 1, stream_window=2**30, connection_window=2**30)
    server = greeted(limits=limits)
    sent = headers(1) + data(1, bytes(2**24 - 1))
    started = time.process_time()
    events = [event for at in range(0, len(sent), 1000) for event in server.receive(sent[at : at + 1000])]
    assert time.process_time() - started < 1
    assert len(events) == 2
