"""Messages in a stream's bytes: split anywhere, too long, compressed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import RpcFailed
from plugbay.wire.grpc.framing import MessageReader, frame

messages = st.lists(st.binary(max_size=40), max_size=8)


@given(messages, st.lists(st.integers(0, 400)))
def test_any_split_gives_the_same_messages(sent: list[bytes], cuts: list[int]) -> None:
    data = b"".join(map(frame, sent))
    reader, read = MessageReader(40), []
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        read += reader.read(data[start:end])
    assert read == sent
    assert not reader.is_within_message


@pytest.mark.parametrize("count", range(1, 7))
def test_an_unfinished_message_is_told(count: int) -> None:
    reader = MessageReader(10)
    assert reader.read(frame(b"ab")[:count]) == []
    assert reader.is_within_message


@pytest.mark.parametrize("split", [False, True])
def test_a_longer_message_is_refused_at_its_length(split: bool) -> None:
    reader = MessageReader(4)
    prefix = frame(bytes(5))[:5]
    if split:
        reader.read(prefix[:2])
    with pytest.raises(RpcFailed, match=r"ResourceExhausted .* larger than max \(5 vs\. 4\)"):
        reader.read(prefix[2:] if split else prefix)


@pytest.mark.parametrize(
    ("flag", "encoding", "text"),
    [
        (1, b"identity", "compressed flag set with identity or empty encoding"),
        (1, b"gzip", 'Decompressor is not installed for grpc-encoding "gzip"'),
        (2, b"identity", "received unexpected payload format 2"),
    ],
)
def test_what_is_compressed_is_refused(flag: int, encoding: bytes, text: str) -> None:
    reader = MessageReader(4)
    reader.encoding = encoding
    with pytest.raises(RpcFailed, match=f"code = Internal desc = grpc: {text}"):
        reader.read(bytes([flag]) + frame(b"")[1:])
