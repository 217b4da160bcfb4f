from __future__ import annotations

import pytest

from plugbay import HEALTHY, Device, HealthState, unhealthy, unknown
from plugbay.errors import InvalidHealth


def test_three_states_with_reason_and_message() -> None:
    assert HEALTHY.is_healthy
    assert not unhealthy("Hot", "95 C").is_healthy
    assert (unknown("Lost").state, str(unknown("Lost", "no answer"))) == (
        HealthState.UNKNOWN,
        "Unknown (Lost: no answer)",
    )


@pytest.mark.parametrize("reason", ["", "Hot", "Xid-79", "a.b_c", "x" * 63])
def test_reason_is_good_as_the_value_of_a_label(reason: str) -> None:
    assert unhealthy(reason).reason == reason


@pytest.mark.parametrize("reason", ["too hot", "Hot!", "-Hot", "Hot.", "x" * 64, "Hot\n", "Ä"])
def test_other_reasons_are_refused(reason: str) -> None:
    with pytest.raises(InvalidHealth, match="is not a reason for a health"):
        unhealthy(reason)


def test_long_message_is_cut() -> None:
    assert unhealthy(message="x" * 1024).message == "x" * 1024
    cut = unhealthy(message="é" * 1000).message
    assert cut.endswith("é…")
    assert 1022 <= len(cut.encode()) <= 1024
    assert Device("a", health=unhealthy("Hot", cut)).health.message == cut


def test_a_message_that_is_not_a_text_is_a_sentence() -> None:
    with pytest.raises(InvalidHealth, match="the message of a health is None and not a text"):
        unhealthy("Hot", None)  # type: ignore[arg-type]
    with pytest.raises(InvalidHealth, match="None is not a reason for a health"):
        unhealthy(None)  # type: ignore[arg-type]
