"""YAML with comments: what is read back is what was written."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from plugbay.documents.texts import read_documents
from plugbay.sdk.deploying.noted_yaml import Noted, noted_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    [
        "yes",
        "1e3",
        "null",
        "a: b",
        "# x",
        "- x",
        "x\n",
        "x\n\n",
        " x\ny\n",
        "a\n\n b\t\n",
        "\n",
        "\u2028",
        "\U0001f600\n",
    ]
)
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers(-5, 5000),
    lambda below: (
        st.lists(below.filter(lambda each: not isinstance(each, list)), max_size=3)
        | st.dictionaries(TEXTS, below, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3))
def test_it_reads_back_as_it_was(value: dict[str, Any]) -> None:
    text = noted_yaml([value, {"a": 1}])
    assert [each.value for each in read_documents(text, source="x")] == [value, {"a": 1}]


def test_comments_stand_above_what_they_are_about() -> None:
    value = {
        "a": Noted([Noted("x", "About x."), {"k": Noted(1, "About k."), "l": {}}], "About a."),
        "text": "one\n\ntwo\n",
        "long": Noted(True, "word " * 30),
    }
    assert noted_yaml([value]) == (
        "# About a.\na:\n# About x.\n- x\n# About k.\n- k: 1\n  l: {}\n"
        "text: |\n  one\n\n  two\n"
        f"# {' '.join(['word'] * 22)}\n# {' '.join(['word'] * 8)}\nlong: true\n"
    )


@pytest.mark.parametrize("text", ["y", "0o7", "1:30", "2026-01-01", "~", "", "a b", "%x", "@x", "100m", "10%"])
def test_other_readers_read_the_same(text: str) -> None:
    assert yaml.safe_load(noted_yaml([{text: [text]}])) == {text: [text]}


@pytest.mark.parametrize("first", ["\r", "\f", "\x7f", "\x85", "\u2028", "\ufeff"])
def test_lines_of_text_may_begin_with_what_no_block_can_hold(first: str) -> None:
    assert yaml.safe_load(noted_yaml([{"a": f"{first}b\nc\n"}])) == {"a": f"{first}b\nc\n"}


@pytest.mark.parametrize("line_break", ["\n", "\r", "\x85", "\u2028"])
def test_no_line_of_a_comment_counts(line_break: str) -> None:
    assert yaml.safe_load(noted_yaml([{"a": Noted(1, f"x{line_break}b: 2")}])) == {"a": 1}
