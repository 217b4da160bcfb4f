"""Metadata: texts, bytes under ``-bin``, and names that belong to gRPC."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.wire.grpc.metadata import decode_metadata, encode_metadata


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)), st.binary())
def test_texts_and_bytes_come_back(text: str, data: bytes) -> None:
    sent: dict[str, str | bytes] = {"store": text, "trace-bin": data}
    assert decode_metadata(tuple(encode_metadata(sent))) == sent


@pytest.mark.parametrize("name", [":path", "grpc-status", "content-type", "te", "user-agent"])
def test_names_of_grpc_cannot_be_used(name: str) -> None:
    with pytest.raises(ValueError, match="reserved for gRPC"):
        encode_metadata({name: "x"})


@pytest.mark.parametrize(("name", "value"), [("a", b"x"), ("a-bin", "x")])
def test_bytes_belong_under_their_names(name: str, value: str | bytes) -> None:
    with pytest.raises(ValueError, match="-bin"):
        encode_metadata({name: value})


def test_a_text_of_other_characters_is_refused() -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        encode_metadata({"a": "ö"})


def test_what_peers_send() -> None:
    fields = (
        (b":path", b"/a/b"),
        (b"te", b"trailers"),
        (b"grpc-timeout", b"1S"),
        (b"padded-bin", b"AQI="),
        (b"bare-bin", b"AQI"),
        (b"broken-bin", b"!"),
        (b"note", b"x"),
        (b"note", b"y"),
    )
    assert decode_metadata(fields) == {"padded-bin": b"\1\2", "bare-bin": b"\1\2", "note": "y"}
