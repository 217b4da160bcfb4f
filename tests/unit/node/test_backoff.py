from __future__ import annotations

import pytest

from plugbay.node.backoff import Backoff, go_duration


def test_delays_double_up_to_five_minutes() -> None:
    backoff = Backoff()
    assert [backoff.next_delay_s() for _ in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_long_run_starts_afresh() -> None:
    backoff = Backoff()
    assert [backoff.next_delay_s(ran_s=ran_s) for ran_s in (1, 1, 1, 601, 1)] == [0, 10, 20, 0, 10]


@pytest.mark.parametrize(("seconds", "text"), [(10, "10s"), (80, "1m20s"), (300, "5m0s")])
def test_durations_are_written_as_go_does(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text
