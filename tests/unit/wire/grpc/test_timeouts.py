"""``grpc-timeout`` as grpc-go 1.81 sends and reads it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.wire.grpc.timeouts import decode_timeout, encode_timeout


@pytest.mark.parametrize(
    ("seconds", "value"),
    [
        (0.0999, b"99900000n"),
        (1, b"1000000u"),
        (99.999999, b"99999999u"),
        (100, b"100000m"),
        (3600, b"3600000m"),
        (10**6, b"1000000S"),
        (10**9, b"16666667M"),
        (10**11, b"27777778H"),
        (10**20, b"99999999H"),
        (0, b"0n"),
        (-5, b"0n"),
    ],
)
def test_the_finest_unit_of_eight_digits(seconds: float, value: bytes) -> None:
    assert encode_timeout(seconds) == value


@given(st.floats(0, 10**11))
def test_never_less_than_asked_for(seconds: float) -> None:
    assert decode_timeout(encode_timeout(seconds)) >= seconds * (1 - 1e-12)


TOO_SHORT = "transport: timeout string is too short: "
TOO_LONG = "transport: timeout string is too long: "
NO_UNIT = "transport: timeout unit is not recognized: "


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", TOO_SHORT + '""'),
        (b"5", TOO_SHORT + '"5"'),
        (b"n", TOO_SHORT + '"n"'),
        (b"123456789S", TOO_LONG + '"123456789S"'),
        (b"5x", NO_UNIT + '"5x"'),
        (b"1s", NO_UNIT + '"1s"'),
        (b"-1S", 'strconv.ParseUint: parsing "-1": invalid syntax'),
        (b"1.5S", 'strconv.ParseUint: parsing "1.5": invalid syntax'),
        (b"1 S", 'strconv.ParseUint: parsing "1 ": invalid syntax'),
    ],
)
def test_what_is_no_timeout_is_told_in_the_words_of_go(value: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        decode_timeout(value)
