"""Strategic merge patches, case by case as Kubernetes' documents and tests have them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.objects.merge_rules import POD
from plugbay.objects.strategic_merge import MergeRule, UnusablePatch, strategic_merge

RULE = MergeRule(
    fields={
        "items": MergeRule("name", fields={"env": MergeRule("name")}),
        "words": MergeRule(is_set=True),
    }
)


def item(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


@pytest.mark.parametrize(
    ("value", "patch", "merged"),
    [
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="a new field"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null takes away"),
        pytest.param({"m": {"a": 1}}, {"m": {"b": 2}}, {"m": {"a": 1, "b": 2}}, id="mappings are merged"),
        pytest.param({"m": {"a": 1}}, {"m": {"$patch": "replace", "b": 2}}, {"m": {"b": 2}}, id="replace a mapping"),
        pytest.param({"m": {"a": 1}, "b": 1}, {"m": {"$patch": "delete"}}, {"b": 1}, id="delete a mapping"),
        pytest.param({"m": 1}, {"m": {"a": {"b": None, "c": 1}}}, {"m": {"a": {"c": 1}}}, id="null in a new mapping"),
        pytest.param({"l": [1, 2]}, {"l": [3]}, {"l": [3]}, id="an unknown list is replaced"),
        pytest.param({"words": ["a"]}, {"words": ["b", "a"]}, {"words": ["a", "b"]}, id="a set gains"),
        pytest.param(
            {"words": ["a", "b", "c"]},
            {"$deleteFromPrimitiveList/words": ["b"]},
            {"words": ["a", "c"]},
            id="a set loses",
        ),
        pytest.param(
            {"items": [item("a", x=1), item("b")]},
            {"items": [item("a", y=2), item("c")]},
            {"items": [item("a", x=1, y=2), item("b"), item("c")]},
            id="items are found by their key",
        ),
        pytest.param(
            {"items": [item("a"), item("b")]},
            {"items": [{"$patch": "delete", "name": "a"}]},
            {"items": [item("b")]},
            id="an item is deleted",
        ),
        pytest.param(
            {"items": [item("a", x=1)]},
            {"items": [{"$patch": "replace"}, item("b")]},
            {"items": [item("b")]},
            id="a list is replaced",
        ),
        pytest.param(
            {"items": [item("a", x=1, y=1)]},
            {"items": [item("a", **{"$patch": "replace", "z": 1})]},
            {"items": [item("a", z=1)]},
            id="an item beside the directive replaces the list",
        ),
        pytest.param(
            {"items": [item("a", env=[item("X", value="1")])]},
            {"items": [item("a", env=[item("Y", value="2")])]},
            {"items": [item("a", env=[item("X", value="1"), item("Y", value="2")])]},
            id="lists in items are merged as well",
        ),
        pytest.param(
            {"items": [item("a"), item("b"), item("c")]},
            {"$setElementOrder/items": [item("c"), item("a")], "items": [item("c", x=1)]},
            {"items": [item("c", x=1), item("a"), item("b")]},
            id="the patch says the order, the others stay behind the one before them",
        ),
        pytest.param(
            {"items": [item("a"), item("b")]},
            {"$setElementOrder/items": [item("b"), item("a")]},
            {"items": [item("b"), item("a")]},
            id="only the order",
        ),
        pytest.param(
            {"m": {"a": 1, "b": 2, "c": 3}},
            {"m": {"$retainKeys": ["a", "d"], "d": 4}},
            {"m": {"a": 1, "d": 4}},
            id="only some keys stay",
        ),
        pytest.param({}, {"items": [item("a", x=None)]}, {"items": [item("a")]}, id="null in a new item"),
    ],
)
def test_cases(value: dict[str, Any], patch: dict[str, Any], merged: dict[str, Any]) -> None:
    before = copy.deepcopy(value)
    assert strategic_merge(value, patch, RULE) == merged
    assert value == before


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ({"m": {"$patch": "swap"}}, r"\$patch: 'swap' is none of"),
        ({"items": [{"x": 1}]}, "an item of items has no name"),
        ({"items": ["a"]}, "an item of items has no name"),
        ({"$deleteFromPrimitiveList/words": "a"}, "is not a list"),
        ({"$setElementOrder/items": "a", "items": []}, "is not a list"),
        ({"m": {"$retainKeys": "a"}}, r"\$retainKeys is not a list"),
    ],
)
def test_what_means_nothing_is_refused(patch: dict[str, Any], problem: str) -> None:
    with pytest.raises(UnusablePatch, match=problem):
        strategic_merge({"items": [], "words": []}, patch, RULE)


def test_containers_of_a_pod_are_merged_by_name_and_tolerations_replaced() -> None:
    pod: dict[str, Any] = {
        "spec": {"containers": [item("a", image="x"), item("b", image="y")], "tolerations": [{"key": "k"}]}
    }
    patch: dict[str, Any] = {"spec": {"containers": [item("b", image="z")], "tolerations": [{"key": "l"}]}}
    assert strategic_merge(pod, patch, POD)["spec"] == {
        "containers": [item("a", image="x"), item("b", image="z")],
        "tolerations": [{"key": "l"}],
    }


NAMES = st.sampled_from(["a", "items", "words", "$patch", "$retainKeys", "$setElementOrder/items", "name"])
ANY = st.recursive(
    st.none() | st.integers(0, 2) | st.sampled_from(["a", "b", "replace", "delete"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(NAMES, ANY, max_size=4), st.dictionaries(NAMES, ANY, max_size=4))
def test_any_patch_is_applied_or_refused(value: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy((value, patch))
    try:
        strategic_merge(value, patch, RULE)
    except UnusablePatch:
        pass
    assert (value, patch) == before
