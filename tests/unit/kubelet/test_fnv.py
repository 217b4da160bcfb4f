from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.kubelet.fnv import OFFSET_BASIS, Chunk, before, fnv1a, fnv1a_chunks

states = st.integers(min_value=0, max_value=2**32 - 1)
texts = st.one_of(
    st.binary(max_size=200),
    st.text(alphabet="0123456789 ", min_size=60, max_size=200).map(str.encode),
    st.text(max_size=100).map(str.encode),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)],  # from the authors' test vectors
)
def test_published_values(text: bytes, value: int) -> None:
    assert fnv1a(text) == value


@given(texts, texts)
def test_hash_of_a_text_is_that_of_its_parts_in_turn(first: bytes, second: bytes) -> None:
    assert fnv1a(second, fnv1a(first)) == fnv1a(first + second)


@given(texts, st.lists(states, min_size=1, max_size=5))
def test_chunk_agrees_with_the_plain_hash_however_often_it_is_asked(text: bytes, befores: list[int]) -> None:
    chunk = Chunk(text)
    for state in [*befores, *befores]:
        assert chunk.after(state) == fnv1a(text, state)


@given(st.lists(texts, max_size=6))
def test_chunks_in_a_row_hash_like_their_text(parts: list[bytes]) -> None:
    chunks = [Chunk(part) for part in parts]
    for _ in range(3):
        state = OFFSET_BASIS
        for chunk in chunks:
            state = chunk.after(state)
        assert state == fnv1a(b"".join(parts))


def test_every_low_byte_has_its_entry() -> None:
    for text in (b"\xff\x80 caf\xc3\xa9", b"text only", b"10 20 30 " * 10, b"head[" + b"1 2 " * 40 + b"]}"):
        chunk = Chunk(text)
        chunk.after(0)
        assert [chunk.after(low) for low in range(256)] == [fnv1a(text, low) for low in range(256)]


@given(states, st.integers(0, 255))
def test_before_undoes_one_byte(state: int, byte: int) -> None:
    assert fnv1a(bytes([byte]), before(byte, state)) == state


def test_only_the_first_two_askings_look_at_the_text() -> None:
    chunks = [Chunk(b"some "), Chunk(b"text")]
    costly: list[None] = []
    for seen in (2, 4, 4, 4):
        assert fnv1a_chunks(chunks, OFFSET_BASIS, at_costly=lambda: costly.append(None)) == fnv1a(b"some text")
        assert len(costly) == seen
