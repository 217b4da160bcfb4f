"""The page of a rule says what is checked, why, and how to mend it, with an example in Go and one in Python."""

from __future__ import annotations

from typing import Final

import pytest

from plugbay.testing.conformance.catalogue import all_rules, page_of
from plugbay.testing.conformance.rule import AnyRule

FIRST_WITH_PAGE: Final = 500


@pytest.mark.parametrize(
    "rule", [each for each in all_rules() if each.number > FIRST_WITH_PAGE], ids=lambda rule: rule.name
)
def test_rule_has_its_page(rule: AnyRule) -> None:
    page = page_of(rule)
    title, checked, *_ = page.split("\n\n")
    assert title == f"# {rule.name}: {rule.title}"
    assert not checked.startswith("#")
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## Why", "## How to mend it"]
    assert f"Source: {rule.source}." in page
    assert [line for line in page.splitlines() if line.startswith("```") and line != "```"] == ["```go", "```python"]
