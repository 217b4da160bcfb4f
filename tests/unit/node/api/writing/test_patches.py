"""The bodies of PATCH, and the state that they are meant for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plugbay.node.api.resources import PODS
from plugbay.node.api.writing.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, merged, patched
from plugbay.node.api.writing.preconditions import check_same, check_version
from plugbay.objects.merge_rules import POD
from plugbay.ops.routing import HttpError, Request

VALUE: dict[str, Any] = {"a": {"b": 1}, "l": [1, 2]}


def patch(body: object, kind: str) -> Request:
    return Request("PATCH", "/", headers={"content-type": kind}, body=json.dumps(body).encode())


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JSON_PATCH, [{"op": "replace", "path": "/a/b", "value": 2}]),
        (MERGE_PATCH, {"a": {"b": 2}}),
        (f"{MERGE_PATCH}; charset=utf-8", {"a": {"b": 2}}),
        (STRATEGIC_MERGE_PATCH, {"a": {"b": 2}}),
    ],
)
def test_each_kind_of_patch_is_applied(kind: str, body: object) -> None:
    assert patched(VALUE, patch(body, kind), POD) == {"a": {"b": 2}, "l": [1, 2]}
    assert VALUE == {"a": {"b": 1}, "l": [1, 2]}


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", {}, 415),
        ("application/apply-patch+yaml", {}, 415),
        ("", {}, 415),
        (MERGE_PATCH, [], 400),
        (STRATEGIC_MERGE_PATCH, "a", 400),
        (STRATEGIC_MERGE_PATCH, {"$patch": "swap"}, 400),
        (JSON_PATCH, [{"op": "copy", "from": "", "path": f"/{index}"} for index in range(40)], 413),
        (JSON_PATCH, [{"op": "copy", "path": "/c"}], 422),
        (JSON_PATCH, [{"op": "copy", "from": 1, "path": "/c"}], 422),
        (JSON_PATCH, [{"op": "copy", "from": "/nothing", "path": "/c"}], 422),
        (JSON_PATCH, {}, 400),
        (JSON_PATCH, [1], 422),
        (JSON_PATCH, [{"op": "test", "path": "/a/b", "value": 2}], 422),
        (JSON_PATCH, [{"op": "remove", "path": "/nothing"}], 422),
        (JSON_PATCH, [{"op": "add", "path": "/a/b/c/d", "value": 1}], 422),
        (JSON_PATCH, [{"op": "replace", "path": "", "value": 1}], 422),
        (JSON_PATCH, [{"op": "test", "path": "/a", "value": 1}] * 10_001, 413),
    ],
)
def test_what_cannot_be_applied_is_refused(kind: str, body: object, status: int) -> None:
    with pytest.raises(HttpError) as refused:
        patched(VALUE, patch(body, kind), POD)
    assert refused.value.status == status


@pytest.mark.parametrize(
    ("value", "change", "result"),
    [  # RFC 7396, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_are_those_of_the_rfc(value: object, change: object, result: object) -> None:
    assert merged(value, change) == result


POD_NOW: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "d", "uid": "u", "resourceVersion": "7"},
}


def changed(**metadata: str) -> dict[str, Any]:
    return {**POD_NOW, "metadata": {**POD_NOW["metadata"], **metadata}}


@pytest.mark.parametrize("metadata", [{"resourceVersion": "6"}, {"uid": "other"}])
def test_a_change_of_another_state_is_a_conflict(metadata: dict[str, str]) -> None:
    for check in (check_version, check_same):
        with pytest.raises(HttpError) as refused:
            check(PODS, POD_NOW, changed(**metadata))
        assert (refused.value.status, refused.value.reason) == (409, "Conflict")
        assert 'pods "p": the object has been modified' in refused.value.message


@pytest.mark.parametrize("wanted", [changed(name="q"), changed(namespace="e"), {**POD_NOW, "kind": "Node"}])
def test_a_patch_does_not_make_another_object(wanted: dict[str, Any]) -> None:
    with pytest.raises(HttpError) as refused:
        check_same(PODS, POD_NOW, wanted)
    assert refused.value.status == 400


def test_a_change_that_names_no_state_or_the_present_one_passes() -> None:
    check_same(PODS, POD_NOW, POD_NOW)
    check_version(PODS, POD_NOW, {"metadata": {"name": "p"}})
    check_version(PODS, POD_NOW, "nonsense")


def test_copies_cannot_grow_without_end() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": f"/a/{number}"} for number in range(60)]
    with pytest.raises(HttpError, match="copies") as caught:
        patched(VALUE, patch(doubling, JSON_PATCH), POD)
    assert caught.value.status == 413
    assert VALUE == {"a": {"b": 1}, "l": [1, 2]}
