"""Windows of both sides: what is held back, let through, and given back. Sections of RFC 9113."""

from __future__ import annotations

import pytest

from plugbay.wire.http2 import frames
from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.http2.connection import Http2Connection, Http2Limits, Role
from plugbay.wire.http2.events import DataReceived, HeadersReceived, StreamDrained, StreamReset
from plugbay.wire.http2.frames import END_STREAM
from plugbay.wire.http2.settings import Setting
from tests.unit.wire.http2.peers import (
    PREFACE_AND_SETTINGS,
    REQUEST,
    RESPONSE,
    SETTINGS_ACK,
    TRAILERS,
    Clock,
    data,
    greeted,
    headers,
    rst,
    settings,
    split,
)


def window_updates(connection: Http2Connection) -> list[tuple[int, int]]:
    """The streams, 0 for the connection, with what each is given back."""
    sent = split(connection.take())
    return [(stream, int.from_bytes(payload)) for kind, _, stream, payload in sent if kind == frames.WINDOW_UPDATE]


def test_6_9_windows_are_given_back_when_half_of_them_is_consumed() -> None:
    server = greeted(limits=Http2Limits(stream_window=1000, connection_window=65_535))
    server.receive(headers(1) + data(1, bytes(1000)))
    server.consumed(1, 499)
    assert window_updates(server) == []
    server.consumed(1, 1)
    assert window_updates(server) == [(1, 500)]
    server.consumed(1, 500)
    assert window_updates(server) == [(1, 500)]


def test_6_9_the_connections_window_is_given_back_for_closed_streams_too() -> None:
    server = greeted()
    for stream in (1, 3):
        server.receive(headers(stream) + data(stream, bytes(16_384)) + rst(stream))
        server.consumed(stream, 16_384)
    assert window_updates(server) == [(0, 32_768)]


def test_6_9_a_stream_that_the_peer_has_ended_is_given_nothing() -> None:
    server = greeted(limits=Http2Limits(stream_window=100))
    server.receive(headers(1) + data(1, bytes(100), ends=True))
    server.consumed(1, 100)
    assert window_updates(server) == []


def test_6_9_2_the_connections_window_is_raised_at_once() -> None:
    connection = Http2Connection(Role.CLIENT, Http2Limits(connection_window=1_000_000), Clock())
    assert window_updates(connection) == [(0, 1_000_000 - 65_535)]


def test_6_9_3_a_peer_that_does_not_know_our_settings_may_send_more() -> None:
    server = Http2Connection(Role.SERVER, Http2Limits(stream_window=100), Clock())
    server.receive(PREFACE_AND_SETTINGS + headers(1) + data(1, bytes(16_384)))
    assert server.streams == 1
    server.consumed(1, 16_384)
    server.receive(SETTINGS_ACK + headers(3))
    assert server.receive(data(3, bytes(101))) == [StreamReset(3, ErrorCode.FLOW_CONTROL_ERROR, by_peer=False)]
    assert server.receive(data(1, bytes(100))) == [DataReceived(1, bytes(100), ends=False)]


def test_6_9_1_data_waits_for_both_windows() -> None:
    server = greeted()
    server.receive(settings((Setting.INITIAL_WINDOW_SIZE, 10)) + headers(1, ends=True))
    server.send_headers(1, RESPONSE)
    server.send_data(1, b"0123456789abc")
    server.take()
    assert server.unsent(1) == 3
    assert server.receive(frames.window_update(1, 2)) == []
    assert server.receive(frames.window_update(1, 2)) == [StreamDrained(1)]
    assert [payload for kind, *_, payload in split(server.take()) if kind == frames.DATA] == [b"ab", b"c"]


def test_6_9_1_an_empty_end_and_trailers_need_no_window() -> None:
    server = greeted()
    server.receive(settings((Setting.INITIAL_WINDOW_SIZE, 0)) + headers(1, ends=True) + headers(3, ends=True))
    for stream in (1, 3):
        server.send_headers(stream, RESPONSE)
    server.send_data(1, b"", ends=True)
    server.send_headers(3, TRAILERS, ends=True)
    assert server.streams == 0
    ends = [(kind, stream) for kind, flags, stream, _ in split(server.take()) if flags & END_STREAM]
    assert (frames.DATA, 1) in ends
    assert (frames.HEADERS, 3) in ends


def test_6_9_2_a_window_below_zero_has_to_be_filled_first() -> None:
    server = greeted()
    server.receive(headers(1, ends=True))
    server.send_headers(1, RESPONSE)
    server.send_data(1, bytes(1000))
    server.receive(settings((Setting.INITIAL_WINDOW_SIZE, 100)))
    server.send_data(1, b"x")
    server.receive(frames.window_update(1, 900))
    assert server.unsent(1) == 1
    assert server.receive(frames.window_update(1, 1)) == [StreamDrained(1)]


def test_8_1_trailers_come_after_queued_data_and_end_the_stream() -> None:
    server = greeted()
    server.receive(settings((Setting.INITIAL_WINDOW_SIZE, 4)) + headers(1, ends=True))
    server.send_headers(1, RESPONSE)
    server.send_data(1, b"12345678")
    server.send_headers(1, TRAILERS, ends=True)
    server.take()
    assert server.receive(settings((Setting.INITIAL_WINDOW_SIZE, 8))) != []
    kinds = [kind for kind, *_ in split(server.take())]
    assert kinds == [frames.SETTINGS, frames.DATA, frames.HEADERS]
    assert server.streams == 0


def test_4_2_frames_are_as_large_as_the_peer_takes_them() -> None:
    server = greeted()
    windows = settings((Setting.INITIAL_WINDOW_SIZE, 10**6), (Setting.MAX_FRAME_SIZE, 40_000))
    server.receive(windows + frames.window_update(0, 10**6) + headers(1, ends=True))
    server.send_headers(1, RESPONSE)
    server.send_data(1, bytes(100_000), ends=True)
    sizes = [len(payload) for kind, *_, payload in split(server.take()) if kind == frames.DATA]
    assert sizes == [40_000, 40_000, 20_000]


def test_empty_data_that_ends_nothing_is_not_sent() -> None:
    client = greeted(Role.CLIENT)
    stream = client.open(REQUEST)
    client.take()
    client.send_data(stream, b"")
    assert client.take() == b""


def test_16_mib_arrive_in_pieces_of_any_size() -> None:
    limits = Http2Limits(max_frame_bytes=2**20, stream_window=2**25, connection_window=2**25)
    server = greeted(limits=limits)
    message = bytes(range(256)) * 2**16
    sent = headers(1) + b"".join(
        data(1, message[at : at + 2**20], ends=at + 2**20 == len(message)) for at in range(0, len(message), 2**20)
    )
    got = []
    for at in range(0, len(sent), 100_000):
        got += server.receive(sent[at : at + 100_000])
    assert isinstance(got[0], HeadersReceived)
    assert b"".join(event.data for event in got if isinstance(event, DataReceived)) == message


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_frame_bytes": 16_383},
        {"max_frame_bytes": 2**24},
        {"stream_window": 0},
        {"stream_window": 2**31},
        {"connection_window": 65_534},
        {"connection_window": 2**31},
    ],
)
def test_6_5_2_limits_that_cannot_be_told_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Http2Limits(**wrong)
