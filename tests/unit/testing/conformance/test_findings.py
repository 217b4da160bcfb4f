"""A rule that is judged in several scenes has one verdict."""

from __future__ import annotations

from typing import Final

import pytest

from plugbay.testing.conformance.catalogue import rule_named
from plugbay.testing.conformance.findings import RuleOutcome, Verdict, joined

PASSED: Final = Verdict(rule_named("PB303"), "example.com/gpu", RuleOutcome.PASSED)
FAILED: Final = Verdict(
    rule_named("PB303"), "example.com/gpu", RuleOutcome.FAILED, ("twice",), trace=("1 s", "2 s"), seen_in="quiet"
)
NOT_JUDGED: Final = Verdict(rule_named("PB303"), "example.com/gpu", RuleOutcome.NOT_JUDGED, ("no list came",))
NOT_APPLICABLE: Final = Verdict(rule_named("PB303"), "example.com/gpu", RuleOutcome.NOT_APPLICABLE, ("no --provoke",))


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ((PASSED, FAILED, NOT_APPLICABLE), FAILED),
        ((NOT_JUDGED, NOT_APPLICABLE, PASSED), PASSED),
        ((NOT_APPLICABLE, NOT_JUDGED), NOT_JUDGED),
        ((NOT_APPLICABLE,), NOT_APPLICABLE),
        ((FAILED, FAILED), FAILED),
    ],
    ids=("failed", "passed", "not judged", "not applicable", "said once"),
)
def test_one_scene_decides(parts: tuple[Verdict, ...], whole: Verdict) -> None:
    assert joined(parts) == whole


def test_scene_of_the_finding_is_named() -> None:
    assert joined((PASSED, FAILED)).scene == "quiet"
    assert joined((PASSED,)).scene == "lists"
