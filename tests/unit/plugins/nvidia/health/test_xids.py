"""Which XIDs count, by NVIDIA's environment variables."""

from __future__ import annotations

import pytest

from plugbay.plugins.nvidia.health.xids import APPLICATION_XIDS, DISABLE, ENABLE, parse_xids, xid_policy


@pytest.mark.parametrize("text", ["", ",", "not-an-int", "-68", "+68"])
def test_scenario_89_lists_without_a_number_are_empty(text: str) -> None:
    """Scenario 89."""
    assert parse_xids(text).numbers == frozenset()
    assert not parse_xids(text).is_all


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("68", {68}), ("68  ", {68}), ("68,", {68}), (",68", {68}), ("68,67", {67, 68}), ("68,not-an-int,67", {67, 68})],
)
def test_scenario_90_numbers_are_read(text: str, numbers: set[int]) -> None:
    """Scenario 90."""
    assert parse_xids(text).numbers == numbers


def test_scenario_91_application_errors_are_ignored_by_default() -> None:
    """Scenario 91."""
    policy, warnings = xid_policy({})
    assert {xid for xid in range(200) if policy.is_ignored(xid)} == APPLICATION_XIDS
    assert warnings == ()


@pytest.mark.parametrize("text", ["all", "xids", "XIDs", "79,all", "0"])
def test_scenario_92_everything_can_be_disabled(text: str) -> None:
    """Scenario 92."""
    policy, _ = xid_policy({DISABLE: text})
    assert policy.ignores_everything
    assert all(policy.is_ignored(xid) for xid in range(200))


def test_scenario_93_everything_can_be_enabled() -> None:
    """Scenario 93."""
    policy, _ = xid_policy({ENABLE: "all"})
    assert not any(policy.is_ignored(xid) for xid in range(200))


def test_scenario_94_enabled_counts_before_disabled() -> None:
    """Scenario 94."""
    policy, _ = xid_policy({DISABLE: "11", ENABLE: "11,31"})
    assert (policy.is_ignored(11), policy.is_ignored(31), policy.is_ignored(13)) == (False, False, True)


def test_scenario_95_all_but_a_few_can_be_disabled() -> None:
    """Scenario 95, which the reference gets wrong: here its documentation is right."""
    policy, _ = xid_policy({DISABLE: "all", ENABLE: "79"})
    assert not policy.ignores_everything
    assert (policy.is_ignored(79), policy.is_ignored(48)) == (False, True)


def test_what_is_not_a_number_is_named() -> None:
    _, warnings = xid_policy({DISABLE: "foo,13", ENABLE: "-1"})
    assert [warning.split(":")[0] for warning in warnings] == [
        "Ignoring malformed Xid value foo",
        "Ignoring malformed Xid value -1",
    ]
