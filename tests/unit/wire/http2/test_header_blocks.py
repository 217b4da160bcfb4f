"""Header blocks against the package hpack: ours are read by it, and its blocks, good and broken, are read alike."""

from __future__ import annotations

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.wire.http2.codes import ConnectionFault, ErrorCode
from plugbay.wire.http2.header_blocks import EMPTY_TABLE, BlockDecoder, encode

LARGE = 1_000_000
FIELDS = st.lists(
    st.tuples(
        st.sampled_from([b":method", b":path", b"content-type", b"grpc-timeout", b"x-a", b"x-b"])
        | st.binary(min_size=1, max_size=20),
        st.sampled_from([b"POST", b"/", b"application/grpc", b"1S", b""]) | st.binary(max_size=300),
    ),
    max_size=12,
)


@given(FIELDS)
def test_our_blocks_are_read_by_hpack_and_by_us(fields: list[tuple[bytes, bytes]]) -> None:
    block = encode(fields)
    for start in (b"", EMPTY_TABLE):
        assert [tuple(field) for field in hpack.Decoder().decode(start + block, raw=True)] == fields
        assert list(BlockDecoder(LARGE).decode(start + block).fields) == fields


@pytest.mark.parametrize("size", [0, 126, 127, 128, 254, 255, 16_383, 16_510, 16_511, 70_000])
def test_texts_of_any_length(size: int) -> None:
    field = (b"x" * max(size, 1), b"y" * size)
    assert BlockDecoder(LARGE).decode(encode([field])).fields == (field,)
    assert [tuple(each) for each in hpack.Decoder(LARGE).decode(encode([field]), raw=True)] == [field]


@given(st.lists(st.tuples(FIELDS, st.booleans(), st.sampled_from([None, None, None, 0, 100, 4096])), max_size=12))
def test_blocks_of_hpack_are_read_in_their_order(
    lists: list[tuple[list[tuple[bytes, bytes]], bool, int | None]],
) -> None:
    """With all that a sender may do: the table filled, thrown out of and resized, Huffman, and the same again."""
    encoder, decoder = hpack.Encoder(), BlockDecoder(LARGE)
    for fields, huffman, table_size in lists:
        if table_size is not None:
            encoder.header_table_size = table_size
        for _ in range(3):
            assert list(decoder.decode(encoder.encode(fields, huffman=huffman)).fields) == fields


@given(st.lists(st.binary(max_size=40) | st.builds(bytes, st.lists(st.integers(0x40, 0xFF), max_size=20)), max_size=6))
def test_bytes_at_random_are_read_as_hpack_reads_them(blocks: list[bytes]) -> None:
    """Until the first error, which is COMPRESSION_ERROR; a third change of the table's size is one with us only."""
    ours, theirs = BlockDecoder(LARGE), hpack.Decoder(LARGE)
    for block in blocks:
        ours_read = fields_or_fault(ours, block)
        try:
            fields = [tuple(field) for field in theirs.decode(block, raw=True)]
        except (hpack.HPACKError, IndexError):
            assert isinstance(ours_read, ConnectionFault)
            assert ours_read.code == ErrorCode.COMPRESSION_ERROR
            return
        if isinstance(ours_read, ConnectionFault):
            assert "size changes" in ours_read.reason or "too long" in ours_read.reason
            return
        assert ours_read == fields


def fields_or_fault(decoder: BlockDecoder, block: bytes) -> list[tuple[bytes, bytes]] | ConnectionFault:
    try:
        return list(decoder.decode(block).fields)
    except ConnectionFault as fault:
        return fault


def test_a_block_is_remembered_until_the_table_changes() -> None:
    decoder = BlockDecoder(LARGE)
    decoder.decode(b"\x40\x01a\x011")
    from_table = b"\xbe"
    first = decoder.decode(from_table)
    assert first.fields == ((b"a", b"1"),)
    assert decoder.decode(from_table) is first
    decoder.decode(b"\x40\x01b\x012")
    assert decoder.decode(from_table).fields == ((b"b", b"2"),)
    decoder.decode(b"\x20")
    with pytest.raises(ConnectionFault):
        decoder.decode(from_table)


def test_what_is_remembered_is_bounded() -> None:
    decoder = BlockDecoder(LARGE)
    for number in range(1000):
        decoder.decode(encode([(b"x", str(number).encode())]))
    decoder.decode(encode([(b"x", b"y" * 10_000)]))
    remembered = decoder._remembered
    assert len(remembered) <= 64
    assert max(map(len, remembered)) <= 1024
