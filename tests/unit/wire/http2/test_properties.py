"""What holds for all pieces, interleavings and windows."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from plugbay.wire.http2 import frames
from plugbay.wire.http2.connection import Http2Connection, Http2Limits, Role
from plugbay.wire.http2.events import DataReceived, Event, HeadersReceived
from tests.unit.wire.http2 import peers
from tests.unit.wire.http2.frames_at_random import random_frame, usual_frames
from tests.unit.wire.http2.peers import (
    GREETING,
    REQUEST,
    REQUEST_FIELDS,
    RESPONSE,
    TRAILER_FIELDS,
    TRAILERS,
    Clock,
    data,
    exchange,
    headers,
    pair,
)

FEW: Final = settings(max_examples=60)


def outcome(role: Role, pieces: Sequence[bytes]) -> tuple[list[Event], bytes]:
    """The events of ``pieces``, and all that is sent."""
    connection = Http2Connection(role, Http2Limits(), Clock())
    if role is Role.CLIENT:
        for _ in range(4):
            connection.open(REQUEST)
    connection.take()
    events, sent = list[Event](), b""
    for piece in pieces:
        events += connection.receive(piece)
        sent += connection.take()
    return events, sent


def test_every_split_into_two_gives_the_same() -> None:
    """The bytes of a unary call and of what goes with it, cut at every place."""
    for role in Role:
        first = REQUEST if role is Role.SERVER else RESPONSE
        whole = GREETING[role] + headers(1, first) + data(1, b"content") + headers(1, TRAILERS, ends=True)
        expected = outcome(role, [whole])
        assert len(expected[0]) == 4
        for cut in range(len(whole) + 1):
            assert outcome(role, [whole[:cut], whole[cut:]]) == expected
        assert outcome(role, [bytes((byte,)) for byte in whole]) == expected


@FEW
@given(st.randoms(use_true_random=False), st.sampled_from(Role), st.data())
def test_every_split_gives_the_same(random: Random, role: Role, draw: st.DataObject) -> None:
    sent = [frame.content for frame in usual_frames(random, role)]
    sent += [random_frame(random).content for _ in range(random.randrange(4))]
    whole = GREETING[role] + b"".join(sent)
    cuts = sorted(draw.draw(st.sets(st.integers(0, len(whole)), max_size=30)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert outcome(role, pieces) == outcome(role, [whole])


@FEW
@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=5),
    st.integers(1, 400),
    st.integers(1, 400),
    st.randoms(use_true_random=False),
)
def test_messages_arrive_whole_through_any_windows(
    messages: list[bytes], client_window: int, server_window: int, random: Random
) -> None:
    """Both sides send on several streams at once; readers consume in pieces of any size, and late."""
    limits = [Http2Limits(stream_window=window) for window in (client_window, server_window)]
    client, server = pair(*limits)
    streams = [client.open(REQUEST) for _ in messages]
    for stream, message in zip(streams, messages, strict=True):
        client.send_data(stream, message, ends=True)
    got = {id(client): dict.fromkeys(streams, b""), id(server): dict.fromkeys(streams, b"")}
    owed = {id(client): dict.fromkeys(streams, 0), id(server): dict.fromkeys(streams, 0)}
    ended = {id(client): set[int](), id(server): set[int]()}
    while any(len(each) < len(streams) for each in ended.values()):
        before = (dict(got[id(client)]), dict(got[id(server)]))
        for events, at in zip(exchange(client, server), (client, server), strict=True):
            for event in events:
                if isinstance(event, DataReceived):
                    got[id(at)][event.stream] += event.data
                    owed[id(at)][event.stream] += len(event.data)
                if isinstance(event, DataReceived | HeadersReceived) and event.ends:
                    ended[id(at)].add(event.stream)
                if isinstance(event, HeadersReceived) and event.fields == REQUEST_FIELDS:
                    server.send_headers(event.stream, RESPONSE)
                    server.send_data(event.stream, messages[streams.index(event.stream)][::-1])
                    server.send_headers(event.stream, TRAILERS, ends=True)
        stuck = before == (got[id(client)], got[id(server)])
        for at in (client, server):
            for stream, count in owed[id(at)].items():
                consumed = count if stuck else random.randint(0, count)
                at.consumed(stream, consumed)
                owed[id(at)][stream] -= consumed
    assert list(got[id(server)].values()) == messages
    assert list(got[id(client)].values()) == [message[::-1] for message in messages]
    assert client.streams == server.streams == 0
    assert not any(server.unsent(stream) for stream in streams)


@FEW
@given(st.randoms(use_true_random=False), st.integers(2, 6))
def test_streams_may_be_interleaved_in_any_way(random: Random, count: int) -> None:
    """The events of each stream are those that it has alone."""
    numbers = range(1, 2 * count, 2)
    sent = {
        number: [
            *([data(number, bytes((number,)) * random.randrange(1, 50)) for _ in range(random.randrange(5))]),
            headers(number, TRAILERS, ends=True),
        ]
        for number in numbers
    }
    mixed = [GREETING[Role.SERVER], *(headers(number) for number in numbers)]
    waiting = {number: list(frames) for number, frames in sent.items()}
    while waiting:
        number = random.choice(sorted(waiting))
        mixed.append(waiting[number].pop(0))
        if not waiting[number]:
            del waiting[number]
    events, _ = outcome(Role.SERVER, mixed)
    for number in numbers:
        lone = [headers(each) for each in numbers] + sent[number]
        expected, _ = outcome(Role.SERVER, [GREETING[Role.SERVER], *lone])
        assert [event for event in events if event[:1] == (number,)] == [
            event for event in expected if event[:1] == (number,)
        ]


@FEW
@given(st.lists(st.integers(0, 500), min_size=1, max_size=12))
def test_windows_of_settings_go_up_and_down(windows: list[int]) -> None:
    """SETTINGS_INITIAL_WINDOW_SIZE moves open streams' windows, also below zero (section 6.9.2)."""
    server = Http2Connection(Role.SERVER, Http2Limits(), Clock())
    server.receive(GREETING[Role.SERVER] + _initial_window(windows[0]) + headers(1, ends=True))
    server.send_headers(1, RESPONSE)
    server.send_data(1, bytes(10_000))
    most = windows[0]
    for window in windows[1:]:
        server.receive(_initial_window(window))
        most = max(most, window)
        assert 10_000 - server.unsent(1) == most
    server.send_headers(1, TRAILERS, ends=True)
    server.receive(_initial_window(10_000))
    assert server.unsent(1) == 0
    assert server.streams == 0


def _initial_window(size: int) -> bytes:
    return peers.settings((4, size))


def test_the_connections_window_is_shared_in_turn() -> None:
    """Of two streams with much to send neither waits for the other's end."""
    client, server = pair(client=Http2Limits(stream_window=1_000_000))
    streams = [client.open(REQUEST, ends=True) for _ in range(2)]
    exchange(client, server)
    for stream in streams:
        server.send_headers(stream, RESPONSE)
        server.send_data(stream, bytes(500_000))
        server.send_headers(stream, TRAILERS, ends=True)
    got = dict.fromkeys(streams, 0)
    while server.streams:
        for event in client.receive(server.take()):
            if isinstance(event, DataReceived):
                got[event.stream] += len(event.data)
                client.consumed(event.stream, len(event.data))
        server.receive(client.take())
        if all(count < 500_000 for count in got.values()):
            assert abs(got[streams[0]] - got[streams[1]]) <= 65_535 + 16_384
    (*_, last), _ = exchange(client, server)
    assert isinstance(last, HeadersReceived)
    assert last.fields == TRAILER_FIELDS


def test_small_pieces_of_the_connections_window_go_round() -> None:
    server = Http2Connection(Role.SERVER, Http2Limits(), Clock())
    numbers = (1, 3, 5)
    server.receive(GREETING[Role.SERVER] + peers.settings((4, 10**6)))
    server.receive(b"".join(headers(number, ends=True) for number in numbers))
    for number in numbers:
        server.send_headers(number, RESPONSE)
        server.send_data(number, bytes(200_000))
    before = {number: server.unsent(number) for number in numbers}
    for _ in range(30):
        server.receive(frames.window_update(0, 100))
    assert {before[number] - server.unsent(number) for number in numbers} == {1000}
