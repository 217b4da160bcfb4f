"""Templates of ``-o jsonpath``: what they make of objects, and what is none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.cli.kubectl.jsonpath_template import parse_template, render
from plugbay.errors import UsageError

POD: dict[str, Any] = {
    "metadata": {"name": "web", "labels": {"app": "web", "example.com/x": "é"}},
    "status": {"phase": "Running", "reason": None, "containerStatuses": [{"name": "a", "ready": True}, {"name": "b"}]},
}
LIST: dict[str, Any] = {"items": [POD, {"metadata": {"name": "job"}, "status": {"phase": "Failed"}}]}


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("{.items[*].metadata.name}", "web job"),
        (".items[*].metadata.name", "web job"),
        ("items[1].status.phase", "Failed"),
        ("{.items[*].status.containerStatuses[*].ready}", "true"),
        ("{.items[*].missing}", ""),
        ("{.items[0].status.reason}", ""),
        ("{.items[0].metadata.labels}", '{"app":"web","example.com/x":"é"}'),
        ("{.items[0].metadata.labels[*]}", "web é"),
        (r"{.items[0].metadata.labels.example\.com/x}", "é"),
        ('{.items[?(@.status.phase=="Failed")].metadata.name}', "job"),
        ("first: {.items[0].metadata.name}, {.items[0].status.phase}.", "first: web, Running."),
        (r'{.items[0].metadata.name}{"\t\"}\n"}', 'web\t"}\n'),
        (r"{.items[0].metadata.name}{'\n{'}", "web\n{"),
        (r'{range .items[*]}{.metadata.name}={@.status.phase}{"\n"}{end}', "web=Running\njob=Failed\n"),
        ("{range .items[*]}{range .status.containerStatuses[*]}{.name};{end}|{end}", "a;b;||"),
        ("{range .items[*].metadata.name}<{.}>{end}", "<web><job>"),
        ("no value{''}", "no value"),
        ("{..name}", "web a b job"),
        ("{.items[-1:].metadata.name}", "job"),
    ],
)
def test_values_are_put_into_the_text(template: str, shown: str) -> None:
    assert render(parse_template(template), LIST) == shown


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("", "-o jsonpath= wants a template such as {.items[*].metadata.name}"),
        ("{.items", "-o jsonpath: '{.items' has a brace that is never closed, or a path we do not know"),
        ("{end}", "-o jsonpath: '{end}' has an {end} without a {range}"),
        ("{range .a}{.b}", "-o jsonpath: '{range .a}{.b}' has a {range} without an {end}"),
        (
            "{..a..b}",
            "'..a..b' is not a JSONPath that plugbay knows, such as {.status.phase} or {.status.conditions[0].type}",
        ),
        (
            "{.a[0:2:0]}",
            "'.a[0:2:0]' is not a JSONPath that plugbay knows, such as {.status.phase} or {.status.conditions[0].type}",
        ),
        ("{}", "'' is not a JSONPath that plugbay knows, such as {.status.phase} or {.status.conditions[0].type}"),
    ],
)
def test_what_is_no_template_is_refused_in_a_sentence(template: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_template(template)
    assert str(caught.value) == problem


@given(st.lists(st.sampled_from(["{", "}", "range ", ".", "a", "[*]", "end", '"', "\\", "'", "@"]), max_size=10))
def test_any_text_is_a_template_or_a_usage_error(pieces: list[str]) -> None:
    try:
        template = parse_template("".join(pieces))
    except UsageError:
        return
    assert isinstance(render(template, LIST), str)
