"""The page of a rule says what is checked, why, and how to mend it, with an example in Go and one in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import plugbay
from plugbay.testing.conformance.catalogue import all_rules, page_of
from plugbay.testing.conformance.rule import AnyRule

PAGES: Final = Path(plugbay.__file__).parent / "testing/conformance/pages"


def test_no_page_is_left_of_a_rule_that_is_gone() -> None:
    assert {path.stem for path in PAGES.iterdir()} == {rule.name for rule in all_rules()}


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_rule_has_its_page(rule: AnyRule) -> None:
    page = page_of(rule)
    title, checked, *_ = page.split("\n\n")
    assert title == f"# {rule.name}: {rule.title}"
    assert not checked.startswith("#")
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## Why", "## How to mend it"]
    assert f"Source: {rule.source}." in page
    assert [line for line in page.splitlines() if line.startswith("```") and line != "```"] == ["```go", "```python"]
