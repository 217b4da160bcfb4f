"""Every rule can be found by its number, and says why it is one."""

from __future__ import annotations

import pytest

from plugbay.errors import UsageError
from plugbay.testing.conformance.catalogue import all_rules, chosen_rules, rule_named
from plugbay.testing.conformance.rule import AnyRule


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_rule_says_what_and_why(rule: AnyRule) -> None:
    assert 100 <= rule.number <= 999
    assert rule.title[0].isupper()
    assert not rule.title.endswith(".")
    assert len(rule.title) <= 90
    assert rule.source


def test_numbers_choose_rules() -> None:
    assert [rule.name for rule in chosen_rules(["pb101"])] == ["PB101"]
    assert all(rule.name.startswith("PB1") for rule in chosen_rules(["PB1xx"]))


def test_unknown_number_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="PB999 is not a rule"):
        rule_named("PB999")
    with pytest.raises(UsageError, match="PB9999xx is not a rule"):
        chosen_rules(["PB9999xx"])


def test_no_rule_left_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no rule is left"):
        chosen_rules(["PB101"], ["PB101"])
