"""Statuses in trailers, with Go's numbers, names and percent-encoding (grpc-go 1.81)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.grpc.statuses import decode_text, encode_text, read_status, trailers

# Source: grpc-go ``codes/code_string.go``, in the order of the numbers.
GO_NAMES = (
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
)


@pytest.mark.parametrize(("number", "name"), list(enumerate(GO_NAMES))[1:])
def test_each_number_has_its_name(number: int, name: str) -> None:
    failure = read_status({b"grpc-status": b"%d" % number})
    assert failure is not None
    assert failure.code.value == name
    assert dict(trailers(failure))[b"grpc-status"] == b"%d" % number


def test_zero_is_success_whatever_the_text() -> None:
    assert read_status({b"grpc-status": b"0", b"grpc-message": b"fine"}) is None


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param({b"grpc-message": b"m"}, "code = Unknown desc = m", id="no number"),
        pytest.param({b"grpc-status": b"17"}, "code = Unknown desc = ", id="number of the future"),
        pytest.param(
            {b"grpc-status": b"abc"},
            'code = Unknown desc = transport: malformed grpc-status: strconv.ParseInt: parsing "abc": invalid syntax',
            id="not a number",
        ),
        pytest.param({b"grpc-status": b"-1"}, "code = Unknown desc = ", id="below zero"),
    ],
)
def test_a_status_that_is_none(fields: dict[bytes, bytes], text: str) -> None:
    assert str(read_status(fields)) == f"rpc error: {text}"


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("no power: 50 %", b"no power: 50 %25"),
        ("größe", b"gr%C3%B6%C3%9Fe"),
        ("a\nb\x7f", b"a%0Ab%7F"),
        ("~ !", b"~ !"),
    ],
)
def test_texts_are_encoded_as_go_does(text: str, encoded: bytes) -> None:
    assert encode_text(text) == encoded
    assert decode_text(encoded) == text


@pytest.mark.parametrize(("value", "text"), [(b"50 %", "50 %"), (b"%zz", "%zz"), (b"%c3", "�"), (b"%4", "%4")])
def test_broken_encodings_stand_for_themselves(value: bytes, text: str) -> None:
    assert decode_text(value) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_every_text_comes_back(text: str) -> None:
    assert decode_text(encode_text(text)) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.integers(90, 300))
def test_a_text_is_cut_to_what_the_peer_takes(text: str, max_bytes: int) -> None:
    fields = trailers(RpcFailed(RpcCode.INTERNAL, text), max_bytes=max_bytes)
    assert sum(len(name) + len(value) + 32 for name, value in fields) <= max_bytes
    told = decode_text(dict(fields)[b"grpc-message"])
    assert told == text or text.startswith(told.removesuffix(" [cut]").rstrip(" [cut"))
