"""Every scenario of the catalogue (spec 11) has a test whose name carries its number, as in ``test_s037_…``.

Most are in this directory, a file for each subsection; the checkpoint's and PodResources' are beside the other tests
of those, and what topology can show without a manager is among the unit tests.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

SUBSECTIONS: Final = {
    1: range(1, 20),  # registration over kubelet.sock
    2: range(20, 26),  # start-up and directory
    3: range(26, 37),  # watcher route
    4: range(37, 51),  # device lists and capacity
    5: range(51, 71),  # plain allocation
    6: range(71, 77),  # init containers and sidecars
    7: range(77, 88),  # preferred allocation
    8: range(88, 99),  # PreStartContainer and run options
    9: range(99, 118),  # topology
    10: range(118, 124),  # checkpoint
    11: range(124, 133),  # PodResources
    12: range(133, 139),  # health in pod status
    13: range(139, 151),  # restarts
}
TESTS: Final = Path(__file__).parents[2]
DIFFERENCES: Final = TESTS.parent / "docs/differences.md"


@cache
def all_tests() -> frozenset[str]:
    trees = (ast.parse(path.read_bytes()) for path in TESTS.rglob("test_*.py"))
    nodes = (node for tree in trees for node in tree.body)
    names = (node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in names if name.startswith("test_"))


def numbers() -> set[int]:
    return {int(number) for name in all_tests() for number in re.findall(r"_s(\d{3})(?=_)", name)}


@pytest.mark.parametrize("subsection", SUBSECTIONS)
def test_each_scenario_has_a_test(subsection: int) -> None:
    assert not set(SUBSECTIONS[subsection]) - numbers()


def test_numbers_are_those_of_the_catalogue() -> None:
    catalogue = [number for numbers in SUBSECTIONS.values() for number in numbers]
    assert catalogue == list(range(1, 151))
    assert numbers() <= set(catalogue)


def test_page_of_differences_names_tests_that_there_are() -> None:
    page = DIFFERENCES.read_text(encoding="utf-8")
    assert set(re.findall(r"`(test_\w+)`", page)) <= all_tests()
    assert {int(number) for number in re.findall(r"\bs(\d{3})\b", page)} <= numbers()


def test_page_of_differences_lists_every_defect() -> None:
    page = DIFFERENCES.read_text(encoding="utf-8")
    assert [name for name in sorted(all_tests()) if name.startswith("test_defect_") and f"`{name}`" not in page] == []
