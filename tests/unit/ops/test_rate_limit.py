from hypothesis import given
from hypothesis import strategies as st

from plugbay.ops.rate_limit import TokenBucket
from plugbay.testing.clock import ManualClock


def test_burst_is_allowed_at_once_and_refills_with_time() -> None:
    clock = ManualClock()
    bucket = TokenBucket(rate=100, burst=10, monotonic=clock.monotonic)
    assert [bucket.take() for _ in range(12)] == [True] * 10 + [False] * 2
    clock.advance(0.02)
    assert [bucket.take() for _ in range(3)] == [True, True, False]


def test_long_pause_saves_up_no_more_than_a_burst() -> None:
    clock = ManualClock()
    bucket = TokenBucket(rate=100, burst=10, monotonic=clock.monotonic)
    clock.advance(3600)
    assert sum(bucket.take() for _ in range(50)) == 10


@given(st.lists(st.floats(0, 0.5), max_size=200))
def test_never_allows_more_than_burst_and_rate(pauses: list[float]) -> None:
    clock = ManualClock()
    bucket = TokenBucket(rate=7, burst=3, monotonic=clock.monotonic)
    taken = 0
    for pause in pauses:
        clock.advance(pause)
        taken += bucket.take()
        assert taken <= 3 + 7 * clock.monotonic() + 1e-6
