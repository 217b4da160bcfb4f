"""Metadata follow an API server's rules through the life of an object."""

from __future__ import annotations

from typing import Any

import pytest

from plugbay.objects.metadata import (
    born,
    deleting,
    is_gone,
    metadata_problems,
    path_segment_rule,
    subdomain_rule,
    succeeded,
    update_problems,
)

NOW = "2026-01-01T00:00:00Z"


def made(has_generation: bool = True, /, **metadata: Any) -> dict[str, Any]:
    value: dict[str, Any] = {"kind": "Gopher", "metadata": {"name": "g", **metadata}, "spec": {"depth": 1}}
    return born(value, namespace="lab", uid="u1", now=NOW, suffix="abcde", has_generation=has_generation)


def fields(value: Any) -> list[str]:
    return [each.field for each in metadata_problems(value, subdomain_rule)]


def test_the_server_fills_in_what_is_its_own() -> None:
    metadata = made(uid="forged", generation=9, deletionTimestamp=NOW, labels={})["metadata"]
    assert metadata == {"name": "g", "namespace": "lab", "uid": "u1", "creationTimestamp": NOW, "generation": 1}


def test_a_name_is_generated_and_cut() -> None:
    assert made(name="", generateName="g-")["metadata"]["name"] == "g-abcde"
    assert len(made(name="", generateName="x" * 100)["metadata"]["name"]) == 63


def test_the_generation_counts_changes_of_the_specification_only() -> None:
    before: Any = made()
    labelled = before | {"metadata": {"name": "g", "labels": {"a": "b"}}}
    after: Any = succeeded(before, labelled, has_generation=True)
    assert (after["metadata"]["generation"], after["metadata"]["uid"], after["metadata"]["namespace"]) == (
        1,
        "u1",
        "lab",
    )
    told = succeeded(before, before | {"status": {"phase": "x"}}, has_generation=True)
    assert told["metadata"] == before["metadata"]
    deeper: Any = succeeded(before, before | {"spec": {"depth": 2}}, has_generation=True)
    assert deeper["metadata"]["generation"] == 2


def test_a_deleted_object_stays_until_its_finalizers_are_gone() -> None:
    held = deleting(made(finalizers=["example.com/a"]), now=NOW)
    assert not is_gone(held)
    assert deleting(held, now="later") == held, "the first deletion counts"
    more = held | {"metadata": {**held["metadata"], "finalizers": ["example.com/a", "example.com/b"]}}  # type: ignore[dict-item]
    [problem] = update_problems(held, more)
    assert "no new finalizers can be added if the object is being deleted" in str(problem)
    free = held | {"metadata": {"name": "g", "namespace": "lab"}}
    assert is_gone(succeeded(held, free, has_generation=False))
    assert is_gone(deleting(made(), now=NOW))


def test_a_namespace_waits_for_its_contents() -> None:
    space: dict[str, Any] = {"kind": "Namespace", "metadata": {"name": "lab"}, "spec": {"finalizers": ["kubernetes"]}}
    assert not is_gone(deleting(space, now=NOW))
    assert is_gone(deleting(space | {"spec": {}}, now=NOW))


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"name": "A"}, "metadata.name"),
        ({"name": ""}, "metadata.name"),
        ({"labels": {"a/b/c": ""}}, "metadata.labels"),
        ({"labels": {"a": "-"}}, "metadata.labels"),
        ({"annotations": {"": ""}}, "metadata.annotations"),
        ({"annotations": {"a": "x" * 300_000}}, "metadata.annotations"),
        ({"finalizers": ["a b"]}, "metadata.finalizers"),
        ({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}, "metadata.ownerReferences[0].uid"),
    ],
)
def test_metadata_that_an_api_server_refuses(metadata: dict[str, Any], field: str) -> None:
    assert field in fields(made(**metadata))


def test_good_metadata_have_no_problems() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    good = made(labels={"example.com/a": "b"}, annotations={"A/b": "any \n text"}, ownerReferences=[owner])
    assert fields(good) == []
    two = made(ownerReferences=[owner, owner | {"uid": "v"}])
    assert fields(two) == ["metadata.ownerReferences"]


def test_names_of_roles_are_segments_of_a_path() -> None:
    assert path_segment_rule("system:node") == ""
    assert path_segment_rule("a/b") == "may not contain '/'"
    assert path_segment_rule("..") == "may not be '..'"
