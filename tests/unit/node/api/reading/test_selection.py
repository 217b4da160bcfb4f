"""The objects that a list and a watch are about."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from plugbay.documents import Json
from plugbay.errors import UsageError
from plugbay.node.api.reading.collection import Collection
from plugbay.node.api.reading.items import ApiItem, ChangedItem
from plugbay.node.api.reading.selection import ItemSelection
from plugbay.node.api.resources import NODES, PODS
from plugbay.objects.watch import Change
from plugbay.ops.routing import Request


def item(labels: Mapping[str, str], namespace: str = "default", *, version: int = 1, phase: str = "Running") -> ApiItem:
    value: Json = {"metadata": {"name": "p", "labels": dict(labels)}, "status": {"phase": phase}}
    return ApiItem(namespace, "p", version, lambda: value)


RED, BLUE = item({"color": "red"}), item({"color": "blue"})


def selection(query: Mapping[str, str], **params: str) -> ItemSelection:
    return ItemSelection(Request("GET", "/", query=query, params=params), PODS)


def test_namespace_and_selectors_all_have_to_hold() -> None:
    asked = selection({"labelSelector": "color=red", "fieldSelector": "status.phase=Running"}, namespace="default")
    assert asked.holds(RED)
    assert not asked.holds(BLUE)
    assert not asked.holds(item({"color": "red"}, phase="Pending"))
    assert not asked.holds(item({"color": "red"}, namespace="other"))
    assert selection({}).holds(item({}, namespace="other"))
    assert not selection({}).holds(None)


def test_a_name_is_not_a_namespace_where_there_are_none() -> None:
    request = Request("GET", "/", params={"namespace": "default"})
    assert ItemSelection(request, NODES).holds(item({}, namespace=""))


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        (None, BLUE, None),
        (None, RED, Change.ADDED),
        (BLUE, RED, Change.ADDED),
        (RED, RED, Change.MODIFIED),
        (RED, BLUE, Change.DELETED),
        (BLUE, BLUE, None),
    ],
)
def test_an_object_is_added_when_it_comes_to_match(before: ApiItem | None, after: ApiItem, seen: Change | None) -> None:
    happened = ChangedItem(2, Change.MODIFIED if before else Change.ADDED, after, before)
    found = selection({"labelSelector": "color=red"}).seen(happened)
    assert (found and found[0]) is seen
    if found is not None:
        shown, version = (before, 2) if seen is Change.DELETED else (after, after.version)
        assert shown is not None
        assert (found[1].labels, found[1].version) == (shown.labels, version)


@pytest.mark.parametrize(("before", "seen"), [(RED, Change.DELETED), (BLUE, None)])
def test_an_end_is_told_of_what_matched(before: ApiItem, seen: Change | None) -> None:
    asked = selection({"labelSelector": "color=red"})
    found = asked.seen(ChangedItem(2, Change.DELETED, BLUE, before))
    assert found == (None if seen is None else (seen, BLUE))


def test_an_end_is_told_of_an_object_that_was_there_at_the_start() -> None:
    collection = Collection(1, [RED])
    collection.remove(item({"color": "red"}, version=2))
    assert collection.get("default", "p") is None
    assert collection.version == 2


def test_what_is_no_selector_is_refused() -> None:
    with pytest.raises(UsageError):
        selection({"labelSelector": "=color"})
    with pytest.raises(UsageError):
        selection({"fieldSelector": "spec.colour=red"})
