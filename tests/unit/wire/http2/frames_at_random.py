"""Frames at random, good and bad, each with a word for what is special about it."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from plugbay.wire.http2 import frames
from plugbay.wire.http2.frames import ACK, END_HEADERS, END_STREAM, PADDED, PRIORITY_FLAG, frame
from plugbay.wire.http2.header_blocks import encode
from plugbay.wire.http2.settings import Role
from tests.unit.wire.http2.peers import REQUEST_FIELDS, RESPONSE_FIELDS, TRAILER_FIELDS, data, headers, settings

STREAMS: Final = (1, 1, 1, 3, 3, 3, 5, 7)
STRANGE_STREAMS: Final = (0, 2, 4, 9, 101, 2**31 - 1)


class RandomFrame(NamedTuple):
    """Bytes of one or more whole frames.

    Attributes:
        what: its kind, and after a colon what is special about it.
        stream: of its first frame.
    """

    what: str
    stream: int
    content: bytes


_WELL: Final = {
    "request": REQUEST_FIELDS,
    "response": RESPONSE_FIELDS,
    "trailers": TRAILER_FIELDS,
    "interim": ((b":status", b"103"), (b"link", b"x")),
}
_MALFORMED: Final = {
    "no path": REQUEST_FIELDS[:2],
    "empty path": ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b""), (b":authority", b"a")),
    "path twice": (*REQUEST_FIELDS[:3], (b":path", b"/"), (b":authority", b"a")),
    "unknown pseudo": ((b":strange", b"x"), *REQUEST_FIELDS),
    "late pseudo": (*REQUEST_FIELDS[:3], (b"te", b"trailers"), (b":authority", b"a")),
    "capitals": (*REQUEST_FIELDS, (b"Grpc-Timeout", b"1S")),
    "connection": (*REQUEST_FIELDS, (b"connection", b"close")),
    "te": (*REQUEST_FIELDS, (b"te", b"gzip")),
    "empty name": (*REQUEST_FIELDS, (b"", b"x")),
    "line break": (*REQUEST_FIELDS, (b"x", b"a\nb")),
    "blank around": (*REQUEST_FIELDS, (b"x", b" a ")),
    "blank in name": (*REQUEST_FIELDS, (b"a b", b"x")),
    "wrong status": ((b":status", b"20"),),
    "status 101": ((b":status", b"101"),),
    "status twice": ((b":status", b"200"), (b":status", b"200")),
    "mixed": (*REQUEST_FIELDS, (b":status", b"200")),
    "pseudo in trailers": (*TRAILER_FIELDS, (b":path", b"/")),
    "length 3": (*REQUEST_FIELDS, (b"content-length", b"3")),
    "length 3 of response": (*RESPONSE_FIELDS, (b"content-length", b"3")),
    "length no number": (*REQUEST_FIELDS, (b"content-length", b"three")),
    "no fields": (),
}
BLOCKS: Final = {what: encode(fields) for what, fields in {**_WELL, **_MALFORMED}.items()} | {
    "indexed": bytes((0x83, 0x86, 0x84, 0x01, 0x01, 0x61)),
    "table entry": bytes((0x88, 0x40, 0x01, 0x78, 0x01, 0x79)),
    "from table": bytes((0x88, 0xBE)),
    "table size 0": b"\x20" + encode(RESPONSE_FIELDS),
    "table size too large": b"\x3f\xe2\x1f" + encode(REQUEST_FIELDS),
    "late table size": encode(REQUEST_FIELDS) + b"\x20",
    "index 0": b"\x80",
    "index unknown": b"\xff\x70",
    "cut": encode(REQUEST_FIELDS)[:-3],
    "huffman": bytes.fromhex("8386 4184 4d839cff 0482 60ff"),
    "huffman wrong": bytes.fromhex("0082 ffff 0161"),
    "endless number": b"\x7f" + b"\xff" * 12,
}
_RATHER: Final = ("request", "response", "trailers")


def random_frame(random: Random) -> RandomFrame:
    """One frame, and after HEADERS that do not end what continues or interrupts them."""
    stream = random.choice(STREAMS if random.random() < 0.97 else STRANGE_STREAMS)
    make = random.choices(_MAKERS, _WEIGHTS)[0]
    return make(random, stream)


def usual_frames(random: Random, role: Role) -> list[RandomFrame]:
    """Some frames as a peer of ``role`` gets them all day, on a few streams, in an order that is right for each."""
    streams = []
    for stream in (1, 3, 5, 7)[: random.randrange(1, 5)]:
        first = "request" if role is Role.SERVER else "response"
        flags = END_HEADERS | (END_STREAM if random.random() < 0.2 else 0)
        sent = [RandomFrame(f"HEADERS: {first}", stream, frame(frames.HEADERS, flags, stream, BLOCKS[first]))]
        if not flags & END_STREAM:
            sent += [RandomFrame("DATA", stream, data(stream, bytes(random.randrange(1, 9)))) for _ in range(2)]
            sent.append(
                RandomFrame("HEADERS: trailers", stream, headers(stream, BLOCKS["trailers"], ends=True))
                if random.random() < 0.5
                else RandomFrame("DATA", stream, data(stream, b"", ends=True))
            )
            sent = sent[: random.randrange(1, len(sent) + 1)]
        streams.append(sent)
    if role is Role.SERVER:
        return [each for sent in streams for each in sent]
    mixed = []
    while streams := [sent for sent in streams if sent]:
        mixed.append(random.choice(streams).pop(0))
    return mixed


def _headers(random: Random, stream: int) -> RandomFrame:
    name = random.choice(_RATHER) if random.random() < 0.7 else random.choice(list(BLOCKS))
    block, what = BLOCKS[name], f"HEADERS: {name}"
    flags = END_STREAM if random.random() < 0.4 else 0
    if random.random() < 0.85:
        return RandomFrame(what, stream, frame(frames.HEADERS, flags | END_HEADERS, stream, block))
    match random.randrange(6):
        case 0:
            padding = random.choice((0, 1, 20))
            block = bytes((padding,)) + block + bytes(padding)
            return RandomFrame(what, stream, frame(frames.HEADERS, flags | END_HEADERS | PADDED, stream, block))
        case 1:
            above = random.choice((0, 1, 3))
            block = above.to_bytes(4) + b"\x10" + block
            what = f"{what} depends on itself" if above == stream else what
            return RandomFrame(what, stream, frame(frames.HEADERS, flags | END_HEADERS | PRIORITY_FLAG, stream, block))
        case 2:
            payload = random.choice((b"", b"\x05abc"))
            what = f"HEADERS: padded wrongly, {len(payload)} bytes"
            return RandomFrame(what, stream, frame(frames.HEADERS, flags | END_HEADERS | PADDED, stream, payload))
        case 3:
            content = frame(frames.HEADERS, flags, stream, block) + frame(frames.PING, 0, 0, bytes(8))
            return RandomFrame("HEADERS: interrupted", stream, content)
        case 4:
            content = frame(frames.HEADERS, flags, stream, block) + frame(
                frames.CONTINUATION, END_HEADERS, stream + 2, b""
            )
            return RandomFrame("HEADERS: continued elsewhere", stream, content)
        case _:
            cut = random.randrange(len(block) + 1)
            content = frame(frames.HEADERS, flags, stream, block[:cut]) + frame(
                frames.CONTINUATION, END_HEADERS, stream, block[cut:]
            )
            return RandomFrame(what, stream, content)


def _data(random: Random, stream: int) -> RandomFrame:
    flags = END_STREAM if random.random() < 0.3 else 0
    size = random.choices((0, 3, 100, 16_384, 16_385), (3, 5, 5, 3, 0.3))[0]
    if random.random() < 0.8 or size > 16_000:
        what = "DATA: too large" if size > 16_384 else "DATA"
        return RandomFrame(what, stream, frame(frames.DATA, flags, stream, bytes(size)))
    if random.random() < 0.2:
        payload = random.choice((b"", b"\x05abc", b"\x01"))
        return RandomFrame(
            f"DATA: padded wrongly, {len(payload)} bytes", stream, frame(frames.DATA, flags | PADDED, stream, payload)
        )
    padding = random.choice((0, 1, 200))
    payload = bytes((padding,)) + bytes(size) + bytes(padding)
    return RandomFrame("DATA: padded", stream, frame(frames.DATA, flags | PADDED, stream, payload))


def _rst_stream(random: Random, stream: int) -> RandomFrame:
    size = 4 if random.random() < 0.9 else random.choice((0, 3, 5))
    what = "RST_STREAM" if size == 4 else "RST_STREAM: wrong size"
    return RandomFrame(what, stream, frame(frames.RST_STREAM, 0, stream, b"\0\0\0\x08\0"[:size]))


def _priority(random: Random, stream: int) -> RandomFrame:
    above, size = random.choice((0, 1, 3)), 5 if random.random() < 0.9 else random.choice((0, 4, 6))
    what = "PRIORITY" if size == 5 else "PRIORITY: wrong size"
    what = "PRIORITY: depends on itself" if size == 5 and above == stream else what
    return RandomFrame(what, stream, frame(frames.PRIORITY, 0, stream, (above.to_bytes(4) + b"\x10\0")[:size]))


def _settings(random: Random, stream: int) -> RandomFrame:
    values: tuple[tuple[int, int], ...] = (
        *((1, 0), (1, 4096), (2, 0), (2, 1), (2, 2), (3, 0), (3, 100), (4, 0), (4, 65_535), (4, 2**31 - 1)),
        *((4, 2**31), (5, 16_383), (5, 16_384), (5, 2**24 - 1), (5, 2**24), (6, 1000), (8, 1), (99, 7)),
    )
    chance = random.random()
    if chance < 0.7:
        picked = random.sample(values, random.randrange(3))
        return RandomFrame(f"SETTINGS: {picked}", 0, settings(*picked))
    if chance < 0.75:
        return RandomFrame("SETTINGS: twice the same", 0, settings((2, 2), (2, 0)))
    if chance < 0.8:
        return RandomFrame("SETTINGS: wrong size", 0, frame(frames.SETTINGS, 0, 0, bytes(5)))
    if chance < 0.85:
        return RandomFrame("SETTINGS: ACK with content", 0, frame(frames.SETTINGS, ACK, 0, bytes(6)))
    if chance < 0.9:
        return RandomFrame("SETTINGS: on a stream", 1, frame(frames.SETTINGS, 0, 1, b""))
    return RandomFrame("SETTINGS: ACK", 0, frame(frames.SETTINGS, ACK, 0, b""))


def _ping(random: Random, stream: int) -> RandomFrame:
    chance = random.random()
    if chance < 0.8:
        return RandomFrame("PING", 0, frame(frames.PING, random.choice((0, ACK)), 0, b"12345678"))
    if chance < 0.9:
        return RandomFrame("PING: wrong size", 0, frame(frames.PING, 0, 0, b"1234567"))
    return RandomFrame("PING: on a stream", 1, frame(frames.PING, 0, 1, b"12345678"))


def _goaway(random: Random, stream: int) -> RandomFrame:
    last = random.choice((0, 1, 3, 2**31 - 1))
    chance = random.random()
    if chance < 0.2:
        content = b"".join(frames.goaway(number, 0, b"") for number in (1, 3))
        return RandomFrame("GOAWAY: with more", 0, content)
    if chance < 0.8:
        return RandomFrame("GOAWAY", 0, frame(frames.GOAWAY, 0, 0, last.to_bytes(4) + b"\0\0\0\0debug"))
    return RandomFrame("GOAWAY: wrong size", 0, frame(frames.GOAWAY, 0, 0, bytes(7)))


def _window_update(random: Random, stream: int) -> RandomFrame:
    stream = random.choice((0, stream))
    if random.random() < 0.1:
        return RandomFrame("WINDOW_UPDATE: wrong size", stream, frame(frames.WINDOW_UPDATE, 0, stream, bytes(3)))
    increment = random.choices((0, 1, 1000, 2**31 - 1), (1, 4, 4, 1))[0]
    where = "connection" if stream == 0 else "stream"
    return RandomFrame(f"WINDOW_UPDATE: {increment} for the {where}", stream, frames.window_update(stream, increment))


def _other(random: Random, stream: int) -> RandomFrame:
    match random.randrange(4):
        case 0:
            return RandomFrame("CONTINUATION", stream, frame(frames.CONTINUATION, END_HEADERS, stream, b"\x88"))
        case 1:
            payload = (2).to_bytes(4) + encode(REQUEST_FIELDS)
            return RandomFrame("PUSH_PROMISE", stream, frame(frames.PUSH_PROMISE, END_HEADERS, stream, payload))
        case _:
            return RandomFrame("unknown", stream, frame(random.choice((0x20, 0xFA)), 0xFF, stream, b"whatever"))


_MAKERS: Final = (_headers, _data, _rst_stream, _priority, _settings, _ping, _goaway, _window_update, _other)
_WEIGHTS: Final = (40, 30, 6, 3, 5, 3, 2, 8, 3)
