"""SPDY/3.1 without input and output: two sides of ours, pieces of any size, and peers that break the rules."""

from __future__ import annotations

import contextlib
import hashlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.wire.spdy.connection import (
    SpdyAnswer,
    SpdyConnection,
    SpdyData,
    SpdyEnded,
    SpdyEvent,
    SpdyGoAway,
    SpdyOpened,
    SpdyReset,
    SpdyRole,
)
from plugbay.wire.spdy.frames import (
    MAX_CONTROL_BYTES,
    MAX_PAYLOAD,
    UNIDIRECTIONAL,
    FrameKind,
    SpdyFault,
    control_frame,
    data_frames,
)
from plugbay.wire.spdy.header_blocks import DICTIONARY, MAX_BLOCK_BYTES, HeaderPacker, HeaderUnpacker

NAMES = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20)
HEADERS = st.dictionaries(NAMES, st.text(st.characters(codec="utf-8"), max_size=40), max_size=8)


def pair() -> tuple[SpdyConnection, SpdyConnection]:
    return SpdyConnection(SpdyRole.CLIENT), SpdyConnection(SpdyRole.SERVER)


def fed(side: SpdyConnection, *frames: bytes) -> list[SpdyEvent]:
    return list(side.feed(b"".join(frames)))


def syn(stream: int, block: bytes, flags: int = 0) -> bytes:
    return control_frame(FrameKind.SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + block, flags=flags)


def words(*texts: bytes, count: int | None = None) -> bytes:
    """A block of headers, unpacked."""
    counted = b"".join(struct.pack(">I", len(text)) + text for text in texts)
    return struct.pack(">I", len(texts) // 2 if count is None else count) + counted


def packed(plain: bytes) -> bytes:
    compressor = zlib.compressobj(zdict=DICTIONARY)
    return compressor.compress(plain) + compressor.flush(zlib.Z_SYNC_FLUSH)


def test_the_dictionary_is_that_of_the_protocol() -> None:
    """The length and the checksum, which every block of another program names."""
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)
    assert hashlib.sha256(DICTIONARY).hexdigest()[:16] == "51d27341373f923f"
    assert packed(b"")[2:6] == struct.pack(">I", 0xE3C6A7C2)


@given(st.lists(HEADERS, min_size=1, max_size=5))
def test_headers_arrive_as_they_were_sent(blocks: list[dict[str, str]]) -> None:
    packer, unpacker = HeaderPacker(), HeaderUnpacker()
    assert [unpacker.unpack(packer.pack(each)) for each in blocks] == blocks


@given(st.data())
def test_streams_arrive_whole_in_pieces_of_any_size(data: st.DataObject) -> None:
    client, server = pair()
    sent: dict[int, bytes] = {}
    wire = b""
    for headers in data.draw(st.lists(HEADERS, min_size=1, max_size=4)):
        number, frame = client.open(headers)
        sent[number], wire = b"", wire + frame
    for number, chunk in data.draw(
        st.lists(st.tuples(st.sampled_from(sorted(sent)), st.binary(max_size=300)), max_size=12)
    ):
        sent[number] += chunk
        wire += client.send(number, chunk)
    for number in sent:
        wire += client.end(number)
    received = dict.fromkeys(sent, b"")
    ended = set()
    at = 0
    while at < len(wire):
        size = data.draw(st.integers(1, 97))
        for event in server.feed(wire[at : at + size]):
            match event:
                case SpdyData(stream, chunk):
                    assert stream not in ended
                    received[stream] += chunk
                case SpdyEnded(stream):
                    ended.add(stream)
                case _:
                    assert isinstance(event, SpdyOpened)
        at += size
    assert received == sent
    assert ended == sent.keys()


@given(st.binary(max_size=400), st.integers(1, 50))
def test_any_bytes_are_events_or_a_fault(noise: bytes, size: int) -> None:
    _, server = pair()
    with contextlib.suppress(SpdyFault):
        for at in range(0, len(noise), size):
            fed(server, noise[at : at + size])


@given(st.sampled_from(FrameKind), st.binary(max_size=60), st.integers(0, 255))
def test_any_payload_is_an_event_or_a_fault(kind: FrameKind, payload: bytes, flags: int) -> None:
    _, server = pair()
    with contextlib.suppress(SpdyFault):
        fed(server, control_frame(kind, payload, flags=flags))


def test_each_side_ends_by_itself() -> None:
    client, server = pair()
    number, frame = client.open({"streamtype": "data"})
    assert fed(server, frame) == [SpdyOpened(1, {"streamtype": "data"})]
    assert fed(client, server.accept(number)) == []
    assert fed(server, client.end(number)) == [SpdyEnded(1)]
    assert client.send(number, b"more") == b""
    assert fed(client, server.send(number, b"still")) == [SpdyData(1, b"still")]
    assert fed(client, server.end(number)) == [SpdyEnded(1)]
    assert not client.is_open(number)
    assert not server.is_open(number)


def test_a_reset_ends_both_sides_and_what_was_under_way_is_read_over() -> None:
    client, server = pair()
    number, frame = client.open({})
    fed(server, frame)
    late = client.send(number, b"late")
    assert fed(client, server.reset(number)) == [SpdyReset(1)]
    assert fed(server, late, client.reset(number), client.end(number)) == []
    assert (server.accept(number), server.reset(number), server.end(number)) == (b"", b"", b"")


def test_a_ping_of_the_peer_is_answered_and_an_answer_is_not() -> None:
    client, server = pair()
    ping, answer = (control_frame(FrameKind.PING, struct.pack(">I", number)) for number in (7, 8))
    assert fed(server, ping) == [SpdyAnswer(ping)]
    assert fed(client, ping) == []
    assert fed(client, answer) == [SpdyAnswer(answer)]


def test_a_stream_that_begins_at_its_end_has_no_data() -> None:
    _, server = pair()
    block = packed(words())
    assert fed(server, syn(1, block, flags=1)) == [SpdyOpened(1, {}), SpdyEnded(1)]


def test_we_do_not_write_on_a_stream_of_one_way() -> None:
    _, server = pair()
    fed(server, syn(1, packed(words()), flags=UNIDIRECTIONAL))
    assert server.send(1, b"x") == b""


def test_what_changes_nothing_is_read_over() -> None:
    _, server = pair()
    settings = control_frame(FrameKind.SETTINGS, struct.pack(">III", 1, 4, 100))
    window = control_frame(FrameKind.WINDOW_UPDATE, struct.pack(">II", 1, 100))
    unknown = control_frame(FrameKind.SYN_STREAM, b"")[:2] + struct.pack(">HI", 77, 3) + b"abc"
    assert fed(server, settings, window, unknown) == []
    assert fed(server, server.go_away()) == [SpdyGoAway()]


def test_headers_of_answers_pass_through_the_memory_of_blocks() -> None:
    client, server = pair()
    number, frame = client.open({"a": "b"})
    fed(server, frame)
    later = HeaderPacker()
    reply = control_frame(FrameKind.SYN_REPLY, struct.pack(">I", number) + later.pack({"x": "y"}))
    more = control_frame(FrameKind.HEADERS, struct.pack(">I", number) + later.pack({"x": "y"}), flags=1)
    assert fed(client, reply, more) == [SpdyEnded(number)]


def test_more_streams_than_allowed_are_refused_and_the_others_go_on() -> None:
    client, server = SpdyConnection(SpdyRole.CLIENT), SpdyConnection(SpdyRole.SERVER, max_streams=2)
    frames = [client.open({})[1] for _ in range(3)]
    opened, also, refused = fed(server, *frames)
    assert (opened, also) == (SpdyOpened(1, {}), SpdyOpened(3, {}))
    assert isinstance(refused, SpdyAnswer)
    assert fed(client, refused.content) == [SpdyReset(5)]
    fed(server, client.reset(1))
    assert fed(server, client.open({})[1]) == [SpdyOpened(7, {})]


def test_data_of_a_large_frame_is_passed_on_as_it_comes() -> None:
    _, server = pair()
    fed(server, syn(1, packed(words())))
    head = data_frames(1, b"x" * 10)[:8]
    huge = head[:5] + MAX_PAYLOAD.to_bytes(3)
    assert fed(server, huge, b"x" * 1000) == [SpdyData(1, b"x" * 1000)]
    assert len(server._splitter._gathered) == 0


def test_a_chunk_larger_than_a_frame_takes_several() -> None:
    client, server = pair()
    number, frame = client.open({})
    fed(server, frame)
    chunk = b"x" * (MAX_PAYLOAD + 3)
    received = [event.chunk for event in fed(server, client.send(number, chunk)) if isinstance(event, SpdyData)]
    assert list(map(len, received)) == [MAX_PAYLOAD, 3]


BOMB = packed(words(b"a", b"\0" * 10_000_000))


@pytest.mark.parametrize(
    ("frames", "words_of_it"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "never opened"),
        (struct.pack(">II", 0x80020001, 0), "version 2"),
        (struct.pack(">II", 0x80030001, MAX_CONTROL_BYTES + 1), "too large"),
        (syn(1, BOMB), f"larger than {MAX_BLOCK_BYTES}"),
        (syn(1, packed(words(count=100_000))), "too many"),
        (syn(1, packed(words(b"a", count=1))), "cut short"),
        (syn(1, packed(struct.pack(">II", 1, 2**32 - 1))), "cut short"),
        (syn(1, packed(words() + b"rest")), "followed by"),
        (syn(1, packed(b"")), "cut short"),
        (syn(1, b"\xff\xff\xff"), "unpacked"),
        (syn(2, packed(words())), "cannot open stream 2"),
        (syn(0, packed(words())), "number 0"),
        (control_frame(FrameKind.SYN_STREAM, b"\0\0\0\1"), "cut short"),
        (control_frame(FrameKind.RST_STREAM, b"\0"), "cut short"),
        (control_frame(FrameKind.PING, b"\0\0\0\0"), "number 0"),
        (data_frames(0, b"x"), "never opened"),
        (data_frames(1, b"x"), "never opened"),
        (data_frames(2, b"x"), "never opened"),
    ],
)
def test_a_peer_that_breaks_the_rules_is_told_how(frames: bytes, words_of_it: str) -> None:
    _, server = pair()
    with pytest.raises(SpdyFault, match=words_of_it):
        fed(server, frames)


def test_a_stream_cannot_be_opened_twice() -> None:
    _, server = pair()
    packer = HeaderPacker()
    fed(server, syn(1, packer.pack({})), syn(3, packer.pack({})))
    with pytest.raises(SpdyFault, match="cannot open stream 1"):
        fed(server, syn(1, packer.pack({})))
