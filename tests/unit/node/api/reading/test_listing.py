"""Lists: whole, page by page, as tables; and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.node.api.reading.collection import KEPT_CHARACTERS, Collection
from plugbay.node.api.reading.items import ApiItem
from plugbay.node.api.reading.listing import check_options, list_response, object_response
from plugbay.node.api.resources import PODS
from plugbay.ops.routing import HttpError, Request

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def item(name: str, version: int = 1) -> ApiItem:
    metadata = {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return ApiItem("default", name, version, lambda: {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


def asked(query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None) -> Request:
    return Request("GET", "/", query=query or {}, headers=headers or {})


def listed(collection: Collection, query: Mapping[str, str] | None = None, **headers: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(list_response(collection, PODS, asked(query, headers), NOW).body)
    return answer


def names(answer: Mapping[str, Any]) -> list[str]:
    return [each["metadata"]["name"] for each in answer["items"]]


def test_a_list_has_its_kind_its_version_and_each_object_with_its_own() -> None:
    answer = listed(Collection(7, [item("b", 3), item("a", 5)]))
    assert (answer["kind"], answer["apiVersion"], answer["metadata"]) == ("PodList", "v1", {"resourceVersion": "7"})
    assert [(each["metadata"]["name"], each["metadata"]["resourceVersion"]) for each in answer["items"]] == [
        ("a", "5"),
        ("b", "3"),
    ]
    assert listed(Collection(7))["items"] == []


@given(st.sets(st.text("abc", min_size=1, max_size=3)), st.integers(1, 5))
def test_pages_together_are_the_whole_list(present: set[str], limit: int) -> None:
    collection = Collection(1, [item(name) for name in present])
    query, found = {"limit": str(limit)}, []
    while True:
        answer = listed(collection, query)
        found += names(answer)
        assert len(names(answer)) <= limit
        if "continue" not in answer["metadata"]:
            break
        assert answer["metadata"]["remainingItemCount"] == len(present) - len(found)
        query["continue"] = answer["metadata"]["continue"]
    assert found == sorted(present)


def test_the_pages_of_a_list_show_one_state_however_the_objects_change() -> None:
    collection = Collection(1, [item("a"), item("b"), item("c")])
    first = listed(collection, {"limit": "1"})
    collection.put(item("b", 2))
    collection.remove(item("c", 3))
    collection.put(item("d", 4))
    rest = listed(collection, {"continue": first["metadata"]["continue"]})
    assert [(each["metadata"]["name"], each["metadata"]["resourceVersion"]) for each in rest["items"]] == [
        ("b", "1"),
        ("c", "1"),
    ]
    assert rest["metadata"] == {"resourceVersion": "1"}
    exact = {"resourceVersion": "2", "resourceVersionMatch": "Exact"}
    assert names(listed(collection, exact)) == ["a", "b", "c"]
    assert names(listed(collection)) == ["a", "b", "d"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12), st.integers(1, 12))
def test_a_past_state_is_as_it_was(steps: list[tuple[str, bool]], kept: int) -> None:
    collection = Collection(1, [item("a")], kept=kept)
    states = {1: collection.all()}
    for version, (name, is_there) in enumerate(steps, start=2):
        if is_there:
            collection.put(item(name, version))
        elif collection.get("default", name) is not None:
            collection.remove(item(name, version))
        states[collection.version] = collection.all()
    known = sorted(states)[-kept - 1 :]
    assert [collection.at(version) for version in known] == [states[version] for version in known]
    assert collection.at(known[-1] + 1) is None
    assert known[0] == 1 or collection.at(known[0] - 1) is None


def test_a_page_of_a_list_whose_changes_are_not_kept_is_gone() -> None:
    collection = Collection(1, [item("a"), item("b")], kept=1)
    token = listed(collection, {"limit": "1"})["metadata"]["continue"]
    collection.put(item("c", 2))
    collection.put(item("c", 3))
    with pytest.raises(HttpError) as gone:
        listed(collection, {"limit": "1", "continue": token})
    assert (gone.value.status, gone.value.reason) == (410, "Expired")


def test_fewer_changes_of_large_objects_are_kept() -> None:
    collection = Collection(1)
    large = "x" * (KEPT_CHARACTERS // 4)
    for version in range(2, 12):
        metadata = {"name": "a", "namespace": "default", "resourceVersion": str(version)}
        collection.put(ApiItem.of({"metadata": metadata, "data": {"a": large}}))
    assert [version for version in range(1, 12) if collection.at(version) is not None] == [8, 9, 10, 11]


@pytest.mark.parametrize("token", ["abc", "%", "e30=", "bnVsbA=="])
def test_a_token_that_no_list_gave_is_refused(token: str) -> None:
    with pytest.raises(HttpError) as refused:
        listed(Collection(1), {"continue": token})
    assert refused.value.status == 400


def test_a_token_counts_for_its_list_alone() -> None:
    collection = Collection(1, [item("a"), item("b")])
    token = listed(collection, {"limit": "1"})["metadata"]["continue"]
    other = Request("GET", "/api/v1/namespaces/other/pods", query={"continue": token})
    with pytest.raises(HttpError) as refused:
        list_response(collection, PODS, other, NOW)
    assert (refused.value.status, refused.value.message) == (
        400,
        "continue key is not valid: it is of the list at /",
    )
    with pytest.raises(HttpError) as refused:
        listed(collection, {"continue": token, "resourceVersion": "1"})
    assert refused.value.status == 400
    assert names(listed(collection, {"continue": token, "resourceVersion": "0"})) == ["b"]


def test_a_table_has_columns_and_a_row_for_each_object() -> None:
    answer = listed(Collection(1, [item("a")]), None, **TABLE)
    assert answer["kind"] == "Table"
    assert [each["name"] for each in answer["columnDefinitions"]][:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    [row] = answer["rows"]
    assert row["cells"][:5] == ["a", "0/0", "Unknown", "0", "60s"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "a"
    assert listed(Collection(1, [item("a")]), {"includeObject": "None"}, **TABLE)["rows"][0]["object"] is None
    assert (
        listed(Collection(1, [item("a")]), {"includeObject": "Object"}, **TABLE)["rows"][0]["object"]["kind"] == "Pod"
    )


def test_one_object_is_a_table_of_one_row() -> None:
    answer = json.loads(object_response(PODS, item("a", 4), asked(headers=TABLE), NOW).body)
    assert len(answer["rows"]) == 1
    assert answer["metadata"] == {"resourceVersion": "4"}


def test_metadata_alone() -> None:
    accept = {"accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
    answer = listed(Collection(1, [item("a")]), None, **accept)
    assert answer["kind"] == "PartialObjectMetadataList"
    assert set(answer["items"][0]) == {"kind", "apiVersion", "metadata"}


def test_a_version_of_the_future_is_not_waited_for() -> None:
    with pytest.raises(HttpError) as refused:
        listed(Collection(3), {"resourceVersion": "4"})
    assert (refused.value.status, refused.value.reason) == (504, "Timeout")


def test_a_state_of_the_past_is_gone() -> None:
    past = {"resourceVersion": "2", "resourceVersionMatch": "Exact"}
    with pytest.raises(HttpError) as gone:
        listed(Collection(3), past)
    assert gone.value.status == 410
    assert listed(Collection(3), past | {"resourceVersion": "3"})["items"] == []
    assert listed(Collection(3), past | {"resourceVersionMatch": "NotOlderThan"})["items"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"sendInitialEvents": "true"}, "sendInitialEvents"),
        ({"watch": "true", "sendInitialEvents": "true"}, "resourceVersionMatch"),
        ({"sendInitialEvents": "false"}, "sendInitialEvents"),
        ({"watch": "true", "sendInitialEvents": "false"}, "resourceVersionMatch"),
        ({"watch": "true", "resourceVersionMatch": "NotOlderThan"}, "resourceVersionMatch"),
        ({"continue": "x", "resourceVersionMatch": "Exact", "resourceVersion": "1"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Exact"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, "resourceVersionMatch"),
    ],
)
def test_options_that_mean_nothing_together_are_refused(query: Mapping[str, str], field: str) -> None:
    with pytest.raises(HttpError) as refused:
        check_options(asked(query))
    assert refused.value.status == 422
    assert field in refused.value.message
