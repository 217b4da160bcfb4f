from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.ops.backoff import OPERATIONS, RESTARTS, RETRIES, STEADY_S, SYNCS, Backoff, Delays, go_duration


@pytest.mark.parametrize(
    ("delays", "expected"),
    [
        (RESTARTS, [0, 10, 20, 40, 80, 160, 300, 300]),
        (SYNCS, [0, 10, 10]),
        (OPERATIONS, [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122, 122]),
    ],
)
def test_delays_are_those_of_a_kubelet(delays: Delays, expected: list[float]) -> None:
    backoff = Backoff(delays)
    assert [backoff.next_delay_s() for _ in expected] == expected


def test_a_steady_run_starts_afresh() -> None:
    backoff = Backoff(RESTARTS, steady_s=STEADY_S)
    assert [backoff.next_delay_s(ran_s=ran_s) for ran_s in (1, 1, 1, 601, 1)] == [0, 10, 20, 0, 10]


@given(st.integers(1, 10_000))
def test_delays_never_shrink_and_never_pass_the_limit(failures: int) -> None:
    assert 0 < OPERATIONS.after(failures) <= OPERATIONS.after(failures + 1) <= OPERATIONS.most_s


def test_jitter_stays_within_its_part() -> None:
    backoff = Backoff(RETRIES)
    for attempt in range(40):
        expected = min(RETRIES.most_s, RETRIES.first_s * 2**attempt)
        assert expected * 0.5 <= backoff.next_delay_s() <= expected * 1.5


def test_many_nodes_do_not_retry_together() -> None:
    assert len({Backoff(RETRIES).next_delay_s() for _ in range(100)}) > 90


def test_reset_starts_over() -> None:
    backoff = Backoff(RETRIES)
    for _ in range(10):
        backoff.next_delay_s()
    backoff.reset()
    assert backoff.next_delay_s() <= RETRIES.first_s * 1.5


@pytest.mark.parametrize(("seconds", "text"), [(10, "10s"), (80, "1m20s"), (300, "5m0s")])
def test_durations_are_written_as_go_does(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text
