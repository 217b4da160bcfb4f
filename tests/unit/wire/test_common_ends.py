from __future__ import annotations

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from plugbay.wire.common_ends import common_prefix, common_suffix

few = st.binary(max_size=40) | st.text("ab", max_size=40).map(str.encode)


def agreeing(one: bytes, other: bytes) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@given(few, few, few, few)
def test_what_is_common_is_all_that_is_common(before: bytes, one: bytes, other: bytes, after: bytes) -> None:
    first, second = before + one + after, before + other + after
    prefix = common_prefix(first, second)
    assert prefix == agreeing(first, second)
    suffix = common_suffix(first, second, 0)
    assert suffix == agreeing(first[::-1], second[::-1])


@given(few, few, st.integers(0, 50))
def test_nothing_before_the_start_is_common(one: bytes, other: bytes, start: int) -> None:
    start = min(start, len(one), len(other))
    assert common_suffix(one, other, start) == common_suffix(one[start:], other[start:], 0)
