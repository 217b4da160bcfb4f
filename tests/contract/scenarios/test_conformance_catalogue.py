"""The catalogue of upstream's conformance tests says of each what shows it here, or why nothing does."""

from __future__ import annotations

from pathlib import Path

from tests.contract.scenarios.conformance_catalogue import SCENARIOS

TESTS = Path(__file__).parents[2]


def test_every_number_has_a_test_that_exists_or_a_reason() -> None:
    for number, scenario in SCENARIOS.items():
        assert bool(scenario.shown) != bool(scenario.reason), number
        if scenario.shown:
            file, _, function = scenario.shown.partition("::")
            assert f"def {function}(" in (TESTS / file).read_text(), f"{number} {scenario.name}: {scenario.shown}"
        else:
            assert scenario.reason.endswith("."), number


def test_every_name_has_one_number() -> None:
    names = [scenario.name for scenario in SCENARIOS.values()]
    assert len(names) == len(set(names)) > 100
