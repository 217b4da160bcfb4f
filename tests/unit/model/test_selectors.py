"""Label selectors: what they select, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import UsageError
from plugbay.model.selectors import parse_selector, selects

LABELS = {"app": "web", "tier": "", "count": "7", "example.com/gopher": "g1", "in": "notin"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "app=web",
        "app==web",
        " app = web , tier!=test ",
        "app in (web,db)",
        "app in ( db , web )",
        "app notin (db)",
        "zone notin (a,b)",
        "zone!=a",
        "app",
        "!zone",
        "! zone,app",
        "tier=",
        "tier in (,a)",
        "count>6",
        "count<8",
        "example.com/gopher=g1",
        "in in (in,notin)",
        "in",
    ],
)
def test_it_selects(text: str) -> None:
    assert selects(parse_selector(text), LABELS)


@pytest.mark.parametrize(
    "text",
    [
        "app=db",
        "app!=web",
        "app in (db)",
        "app notin (web,db)",
        "zone in (a,b)",
        "zone=",
        "zone",
        "!app",
        "app=web,zone",
        "count>7",
        "count<7",
        "app>1",
        "zone<1",
    ],
)
def test_it_does_not_select(text: str) -> None:
    assert not selects(parse_selector(text), LABELS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("app=web,", "it wants a label where it ends"),
        ("app,,tier", "it wants a label where it has ','"),
        ("=web", "it wants a label where it has '='"),
        ("app web", "it wants an operator (=, ==, !=, in, notin, < or >) where it has 'web'"),
        ("app=a=b", "it wants a comma or the end where it has '='"),
        ("app in web", "it wants values in parentheses where it has 'web'"),
        ("app in", "it wants values in parentheses where it ends"),
        ("app in (a", "it wants a comma or a closing parenthesis where it ends"),
        ("app in ()", "there is no value between its parentheses"),
        ("app=web)", "it wants a comma or the end where it has ')'"),
        ("-app", "no label is called '-app'"),
        ("A_b/c", "no label is called 'A_b/c'"),
        ("a" * 64, f"no label is called '{'a' * 64}'"),
        ("app=-x", "no label has the value '-x'"),
        ("count>many", "> wants a whole number, found 'many'"),
    ],
)
def test_what_is_none_is_refused_with_the_place(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_selector(text)
    assert str(caught.value) == f"{text!r} is not a label selector such as app=web,tier!=test: {problem}"


@given(st.text(alphabet="ab=!(),<> in", max_size=12))
def test_any_text_is_a_selector_or_a_usage_error(text: str) -> None:
    try:
        selector = parse_selector(text)
    except UsageError:
        return
    assert selects(selector, {}) in (True, False)


@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from(["x", "y", ""])))
def test_a_requirement_and_its_opposite_part_all_labels(labels: dict[str, str]) -> None:
    for one, other in (("a=x", "a!=x"), ("a in (x,y)", "a notin (x,y)"), ("a", "!a")):
        assert selects(parse_selector(one), labels) is not selects(parse_selector(other), labels)
