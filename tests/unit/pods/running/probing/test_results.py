from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.model.actions import ExecAction
from plugbay.model.probes import ContainerProbe, ProbeKind
from plugbay.pods.running.probing.results import ProbeOutcome, ProbeResult, Streak, event_of

RESULTS = st.lists(st.sampled_from(list(ProbeOutcome)).map(ProbeResult))


@given(RESULTS, st.integers(1, 4), st.integers(1, 4))
def test_a_verdict_needs_so_many_results_in_a_row(results: list[ProbeResult], good: int, bad: int) -> None:
    probe = ContainerProbe(ExecAction(("true",)), success_threshold=good, failure_threshold=bad)
    streak = Streak()
    for result in results:
        streak = streak.after(result)
    counted = [each.is_success for each in results if each.counts]
    if not counted:
        assert streak.verdict(probe) is None
        return
    is_success, row = [(key, len(list(group))) for key, group in groupby(counted)][-1]
    enough = row >= (good if is_success else bad)
    assert streak.verdict(probe) is (is_success if enough else None)


@pytest.mark.parametrize(
    ("outcome", "reason", "message"),
    [
        (ProbeOutcome.WARNING, "ProbeWarning", "Liveness probe warning: hm"),
        (ProbeOutcome.FAILURE, "Unhealthy", "Liveness probe failed: hm"),
        (ProbeOutcome.UNKNOWN, "Unhealthy", "Liveness probe errored and resulted in unknown state: hm"),
        (ProbeOutcome.UNFINISHED, "Unhealthy", "Liveness probe errored and resulted in failure state: hm"),
    ],
)
def test_events_tell_of_results_in_a_kubelets_words(outcome: ProbeOutcome, reason: str, message: str) -> None:
    assert event_of(ProbeKind.LIVENESS, ProbeResult(outcome, "hm")) == (reason, message)


def test_a_success_makes_no_event() -> None:
    assert event_of(ProbeKind.READINESS, ProbeResult(ProbeOutcome.SUCCESS, "fine")) is None
