from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.printers.ages import age, duration

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (5, "5s"),
        (119, "119s"),
        (120, "2m"),
        (189, "3m9s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + MINUTE, "3h1m"),
        (8 * HOUR - 1, "7h59m"),
        (8 * HOUR + MINUTE, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + 3 * HOUR, "2d3h"),
        (8 * DAY, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + DAY, "2y1d"),
        (8 * YEAR + DAY, "8y"),
    ],
)
def test_durations_read_as_in_kubectl(seconds: int, text: str) -> None:
    assert duration(timedelta(seconds=seconds)) == text


@given(st.integers(0, 20 * YEAR))
def test_a_duration_is_at_most_nine_characters(seconds: int) -> None:
    assert 0 < len(duration(timedelta(seconds=seconds))) <= 9


def test_an_age_nobody_knows_is_said_to_be_unknown() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert age(None, now) == "<unknown>"
    assert age(now - timedelta(seconds=5), now) == "5s"
