"""Values that could not be shown again are refused when they come."""

from __future__ import annotations

import json

import pytest

from plugbay.documents.sound_json import MAX_DEPTH, UnsoundJson, check_json, read_json, repeated_fields


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "Expecting value"),
        (b"\xff", "utf-8"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": 1e400}', "too large"),
        (b'{"a": -1e400}', "too large"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b"1" * 5000, "limit"),
        (b"[" * 100_000, "too deep"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "too deep"),
    ],
)
def test_what_cannot_be_kept_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(UnsoundJson, match=why):
        read_json(content)


def test_everything_else_is_read() -> None:
    deepest = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert json.dumps(read_json(deepest)).encode() == deepest
    assert read_json(b'{"a": "\\ud83d\\ude00\\u0000", "b": 123456789012345678901}') == {
        "a": "\U0001f600\x00",
        "b": 123456789012345678901,
    }
    with pytest.raises(UnsoundJson):
        check_json({"a": float("nan")})


def test_members_that_stand_twice_are_named() -> None:
    assert repeated_fields(b'{"a": 1, "b": [{"c": 1}, {"c": 1, "d": 2, "c": 3}], "a": 2}') == ("a", "b[1].c")
    assert repeated_fields(b'{"a": {"a": 1}}') == ()
