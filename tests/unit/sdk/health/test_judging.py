from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.model.health import HEALTHY, Health, unhealthy, unknown
from plugbay.sdk.health.judging import NOT_CHECKED, UNJUDGED, judge, verdict_of, verdicts_of

HOT, LOST = unhealthy("Hot"), unknown("Lost")
VERDICTS = {"+": HEALTHY, "-": HOT, "?": LOST}


def held(verdicts: str, *, fall: int, rise: int) -> list[Health]:
    """What is held after each verdict."""
    judgement, after = UNJUDGED, []
    for verdict in verdicts:
        judgement = judge(judgement, VERDICTS[verdict], fall=fall, rise=rise)
        after.append(judgement.health)
    return after


@pytest.mark.parametrize(
    ("verdicts", "fall", "rise", "expected"),
    [
        pytest.param("-", 3, 3, "-", id="first-bad-verdict-counts"),
        pytest.param("+", 3, 3, "+", id="first-good-verdict-counts"),
        pytest.param("+--+--", 3, 1, "++++++", id="too-few-in-a-row"),
        pytest.param("+---", 3, 1, "+++-", id="falls"),
        pytest.param("+--?", 3, 1, "+++?", id="falls-to-the-last-word"),
        pytest.param("-+-++", 1, 2, "----+", id="rises"),
        pytest.param("-?-", 3, 3, "-?-", id="both-are-bad-alike"),
        pytest.param("-+?+", 1, 2, "--??", id="unknown-is-no-rise"),
        pytest.param("+-+-", 1, 1, "+-+-", id="no-hysteresis"),
    ],
)
def test_health_goes_both_ways_and_takes_its_time(verdicts: str, fall: int, rise: int, expected: str) -> None:
    assert held(verdicts, fall=fall, rise=rise) == [VERDICTS[each] for each in expected]


@given(st.text("+-?", min_size=1, max_size=30), st.integers(1, 4), st.integers(1, 4))
def test_health_is_what_the_last_long_enough_run_says(verdicts: str, fall: int, rise: int) -> None:
    """Against a naive reading of the whole history."""
    usable = verdicts[0] == "+"
    for end in range(1, len(verdicts) + 1):
        seen = verdicts[:end]
        if usable and end >= fall and "+" not in seen[-fall:]:
            usable = False
        elif not usable and seen.endswith("+" * rise):
            usable = True
    assert held(verdicts, fall=fall, rise=rise)[-1].is_healthy == usable


def test_nothing_is_given_out_before_the_first_verdict() -> None:
    assert UNJUDGED.health == NOT_CHECKED
    assert not NOT_CHECKED.is_healthy


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (True, HEALTHY),
        (HOT, HOT),
        (False, unhealthy("CheckFailed", "its health check says so")),
        (None, unknown("CheckUndecided", "its health check does not know")),
        (3, unknown("CheckInvalid", "its health check gave 3 instead of Health, bool or None")),
        (1, unknown("CheckInvalid", "its health check gave 1 instead of Health, bool or None")),
    ],
)
def test_answer_is_read_as_health(answer: object, verdict: Health) -> None:
    assert verdict_of(answer) == verdict


def test_answer_for_all_is_read_by_device() -> None:
    verdicts = verdicts_of({"a": True, "b": HOT, "gone": True}, ["a", "b", "c"])
    assert verdicts == {"a": HEALTHY, "b": HOT, "c": unknown("CheckUndecided", "its health check left it out")}


def test_answer_for_all_that_is_no_mapping_is_unknown() -> None:
    problem = unknown("CheckInvalid", "the health check gave bool instead of a mapping")
    assert verdicts_of(True, ["a", "b"]) == {"a": problem, "b": problem}
