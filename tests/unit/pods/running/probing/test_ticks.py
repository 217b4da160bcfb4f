"""The moments of probes, beside a ticker as Go has it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plugbay.pods.running.probing.ticks import Ticker

SECONDS = st.integers(0, 1000).map(lambda eighths: eighths / 8)
"""Eighths of a second, which floating-point numbers hold exactly."""
PERIODS = st.integers(1, 20)


class GoTicker:
    """A ticker whose channel holds one tick: a tick that finds it full is lost."""

    def __init__(self, start: float, period_s: float) -> None:
        self._next = start
        self._period_s = period_s

    def take(self, now: float) -> float:
        """The moment at which the next tick is received by a reader that asks at ``now``."""
        if self._next >= now:
            taken = self._next
            self._next += self._period_s
            return taken
        while self._next <= now:  # the first one is kept, the others find the channel full
            self._next += self._period_s
        return now


@given(SECONDS, PERIODS, st.lists(SECONDS, max_size=20))
def test_probes_come_at_the_moments_of_a_ticker_however_long_they_take(
    start: float, period_s: int, lasting: list[float]
) -> None:
    ticker, go = Ticker(start, period_s), GoTicker(start, period_s)
    now, tick = start, -1
    for lasts in lasting:
        tick = ticker.following(tick, earliest=0)
        due = max(ticker.moment(tick), now)
        assert due == go.take(now)
        now = due + lasts
        tick = ticker.seen(tick, now=now)


@given(SECONDS, PERIODS, SECONDS, SECONDS)
def test_the_first_probe_waits_for_a_tick_after_the_delay(
    start: float, period_s: int, ran_s: float, delay_s: float
) -> None:
    ticker = Ticker(start, period_s)
    now = start + ran_s
    tick = ticker.following(ticker.newest(now), earliest=now + delay_s)
    assert ticker.moment(tick) > now
    assert ticker.moment(tick) >= now + delay_s
    assert ticker.moment(tick - 1) < now + delay_s or ticker.moment(tick - 1) <= now


def test_nothing_has_ticked_before_the_start() -> None:
    assert Ticker(10, 5).newest(3) == -1
    assert Ticker(10, 5).newest(10) == 0
