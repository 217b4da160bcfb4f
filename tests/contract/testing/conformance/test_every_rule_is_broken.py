"""Every rule catches a plugin of our tests: one that catches none may be unable to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugbay.testing.conformance.catalogue import all_rules
from tests.contract.testing.conformance import test_changes, test_small_flaws
from tests.contract.testing.zoo.keeper import ANIMALS

UNBROKEN: Final[Mapping[str, str]] = {}
"""Rules that no plugin of ours can break, each with the reason."""


def broken_rules() -> set[str]:
    """The rules that the zoo and the flaws of small plugins are caught by, as their tests assert."""
    return {
        *(rule for animal in ANIMALS.values() for rule in animal.caught_by),
        *(rule for _, _, rules in test_small_flaws.FLAWS for rule in rules),
        *test_small_flaws.FLAWS_OF_EDITS,
        *(rule for _, rules in test_changes.FLAWS for rule in rules),
    }


def test_every_rule_is_broken_by_a_plugin_or_says_why_not() -> None:
    known = {each.name for each in all_rules()}
    assert known - broken_rules() == UNBROKEN.keys(), "add a flaw that the rule catches"
    assert broken_rules() <= known
    assert all(reason.endswith(".") for reason in UNBROKEN.values())
