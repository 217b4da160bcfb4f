from plugbay.sdk.backoff import FIRST_S, MOST_S, Backoff


def test_delays_double_up_to_the_limit_with_jitter() -> None:
    backoff = Backoff()
    for attempt in range(40):
        expected = min(MOST_S, FIRST_S * 2**attempt)
        assert expected * 0.5 <= backoff.next_delay_s() <= expected * 1.5


def test_many_nodes_do_not_retry_together() -> None:
    assert len({Backoff().next_delay_s() for _ in range(100)}) > 90


def test_reset_starts_over() -> None:
    backoff = Backoff()
    for _ in range(10):
        backoff.next_delay_s()
    backoff.reset()
    assert backoff.next_delay_s() <= FIRST_S * 1.5
