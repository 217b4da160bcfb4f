"""Every scenario of the catalogue for NVIDIA's plugin (spec 10) has tests whose names carry its number.

As in ``test_74_…``, ``test_13_14_…``, ``test_scenario_113_…`` or ``test_scenarios_64_to_68_…``.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

SUBSECTIONS: Final = {
    "configuration": range(1, 35),
    "devices and MIG": range(35, 51),
    "allocation": range(51, 74),
    "Allocate": range(74, 89),
    "health": range(89, 103),
    "life cycle, labels, MPS, chart": range(103, 120),
}
TESTS: Final = Path(__file__).parents[3]
PLACES: Final = (TESTS / "unit/plugins/nvidia", TESTS / "contract/plugins/nvidia")
NUMBERS: Final = re.compile(r"test_(?:scenarios?_)?(\d+(?:_(?:to_)?\d+)*)_[a-z]")


@cache
def numbers() -> frozenset[int]:
    """The scenarios that names of tests mention."""
    trees = (ast.parse(path.read_bytes()) for place in PLACES for path in place.rglob("test_*.py"))
    nodes = (node for tree in trees for node in tree.body)
    names = (node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(number for name in names for number in numbers_of(name))


def numbers_of(name: str) -> list[int]:
    found = NUMBERS.match(name)
    if found is None:
        return []
    first, *others = found[1].split("_to_")
    if others:
        return list(range(int(first), int(others[0]) + 1))
    return [int(number) for number in first.split("_")]


@pytest.mark.parametrize("subsection", SUBSECTIONS)
def test_each_scenario_has_a_test(subsection: str) -> None:
    assert set(SUBSECTIONS[subsection]) <= numbers()


def test_numbers_of_tests_are_those_of_the_catalogue() -> None:
    catalogue = [number for numbers in SUBSECTIONS.values() for number in numbers]
    assert catalogue == list(range(1, 120))
    assert numbers() <= set(catalogue)


def test_names_of_tests_are_read() -> None:
    assert numbers_of("test_13_14_sleep_intervals") == [13, 14]
    assert numbers_of("test_scenarios_64_to_68_policy_cases") == [64, 65, 66, 67, 68]
    assert numbers_of("test_scenario_88_and_all_golden_specs") == [88]
    assert numbers_of("test_whole_gpus_are_one_resource") == []
