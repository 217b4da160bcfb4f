"""Bytes at random, and mutated conversations: whatever comes in, no error comes out and no memory is piled up."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from random import Random
from types import FunctionType, ModuleType
from typing import Final

import pytest

from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.http2.connection import Http2Connection, Http2Limits, Role
from plugbay.wire.http2.events import ConnectionFailed, DataReceived, Event, HeadersReceived
from plugbay.wire.http2.header_blocks import encode
from tests.unit.wire.http2.frames_at_random import random_frame, usual_frames
from tests.unit.wire.http2.peers import GREETING, REQUEST, RESPONSE, TRAILERS, Clock, data, headers

INPUTS: Final = 4_000
SOAK_PARTS: Final = 8
SOAK_INPUTS: Final = 1_000_000
STREAMS: Final = 3
MESSAGE: Final = 100_000
MOST_SENT: Final = STREAMS * MESSAGE + 10_000
"""Bytes to send after one input: messages of ours that windows hold back no longer, heads and some answers."""


def conversation(random: Random, role: Role) -> bytes:
    """The bytes of a peer, mostly as they should be, with some of them changed."""
    pieces = [GREETING[role]] if random.random() < 0.95 else []
    usual = [frame.content for frame in usual_frames(random, role)]
    pieces += usual if random.random() < 0.7 else []
    pieces += [random_frame(random).content for _ in range(random.randrange(6))]
    if random.random() < 0.1:
        random.shuffle(pieces)
    content = bytearray(b"".join(pieces))
    for _ in range(random.choice((0, 0, 1, 1, 2, 8))):
        at = random.randrange(len(content) + 1)
        match random.randrange(4):
            case 0 if at < len(content):
                content[at] = random.choice((0, 1, 4, 0x7F, 0x80, 0xFF, random.randrange(256)))
            case 1:
                del content[at : at + random.choice((1, 2, 9, 100))]
            case 2:
                content[at:at] = random.randbytes(random.choice((1, 3, 9, 40)))
            case _:
                content[at:at] = content[at : at + 40]
    return bytes(content)


def play(seed: int) -> None:
    """One peer with its conversation, cut into pieces, and a layer above that answers."""
    random = Random(seed)
    role = random.choice(list(Role))
    limits = Http2Limits(max_streams=STREAMS, max_header_bytes=1000, stream_window=random.choice((10, 70_000)))
    connection = Http2Connection(role, limits, Clock())
    if role is Role.CLIENT:
        for _ in range(STREAMS):
            connection.send_data(connection.open(REQUEST), bytes(MESSAGE), ends=random.random() < 0.5)
    content = conversation(random, role) if random.random() < 0.9 else random.randbytes(random.randrange(200))
    answered = set[int]()
    while content:
        cut = random.choice((1, 7, 9, 10, 64, len(content)))
        piece, content = content[:cut], content[cut:]
        events = connection.receive(piece)
        answer(connection, role, events, answered, random)
        assert len(connection.take()) < MOST_SENT
        assert connection.streams <= limits.max_streams
        if events and isinstance(events[-1], ConnectionFailed):
            assert connection.streams == 0
            assert connection.receive(random.randbytes(20)) == []
            assert connection.take() == b""
            assert not connection.can_open
            return


def answer(
    connection: Http2Connection, role: Role, events: Sequence[Event], answered: set[int], random: Random
) -> None:
    """Do as the layer above does."""
    for event in events:
        match event:
            case DataReceived(stream, data):
                connection.consumed(stream, len(data))
            case HeadersReceived(stream) if role is Role.SERVER and stream not in answered:
                answered.add(stream)
                connection.send_headers(stream, RESPONSE)
                connection.send_data(stream, bytes(random.choice((1, MESSAGE))))
                connection.send_headers(stream, TRAILERS, ends=True)
            case HeadersReceived(stream) if random.random() < 0.1:
                connection.reset(stream, ErrorCode.CANCEL)


def test_no_input_raises() -> None:
    for seed in range(INPUTS):
        play(seed)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_PARTS))
def test_no_input_of_a_million_raises(part: int) -> None:
    size = SOAK_INPUTS // SOAK_PARTS
    for seed in range(part * size, (part + 1) * size):
        play(INPUTS + seed)


@pytest.mark.parametrize("role", Role)
def test_memory_is_bounded_however_long_a_peer_goes_on(role: Role) -> None:
    """Valid frames for ever, of streams opened and ended by both sides: what is kept reaches a bound."""
    connection = Http2Connection(role, Http2Limits(), Clock())
    connection.receive(GREETING[role])
    sizes = []
    for half in range(2):
        for number in range(1 + 2 * 3000 * half, 2 * 3000 * (half + 1), 2):
            one_stream(connection, role, number)
        sizes.append(weight(connection))
    assert connection.streams == 0
    assert sizes[1] <= sizes[0] * 1.1


def one_stream(connection: Http2Connection, role: Role, number: int) -> None:
    unlike = encode([(b"x-number", str(number).encode())])
    if role is Role.SERVER:
        connection.receive(headers(number, REQUEST + unlike) + data(number, b"question", ends=True))
        connection.send_headers(number, RESPONSE)
        connection.send_headers(number, TRAILERS, ends=True)
    else:
        connection.open(REQUEST, ends=True)
        connection.receive(headers(number, RESPONSE + unlike) + data(number, b"answer", ends=True))
    connection.consumed(number, 8 if role is Role.SERVER else 6)
    connection.take()


def weight(root: object) -> int:
    """The bytes of all that is reached from ``root``, classes and modules aside."""
    seen, waiting, total = set[int](), [root], 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type | ModuleType | FunctionType):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        waiting += gc.get_referents(each)
    return total
