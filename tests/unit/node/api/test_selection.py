"""What a list and a watch of some pods are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from plugbay.errors import UsageError
from plugbay.model.ids import PodUid
from plugbay.node.api.objects import pod_object
from plugbay.node.api.selection import PodSelection
from plugbay.ops.routing import Request
from plugbay.pods.record import PodRecord, new_record
from plugbay.pods.store.watch import Change
from plugbay.testing.pod_values import pod


def labelled(labels: Mapping[str, str], namespace: str = "default") -> PodRecord:
    made = replace(pod(), uid=PodUid("u"), labels=labels, namespace=namespace)
    return new_record(made, created_at=datetime(2026, 1, 1, tzinfo=UTC))


RED, BLUE = labelled({"color": "red"}), labelled({"color": "blue"})


def selection(query: Mapping[str, str], **params: str) -> PodSelection:
    return PodSelection(Request("GET", "/", query=query, params=params), partial(pod_object, runtime="process"))


def test_namespace_and_selector_both_have_to_hold() -> None:
    asked = selection({"labelSelector": "color=red"}, namespace="default")
    assert asked.holds(RED)
    assert not asked.holds(BLUE)
    assert not asked.holds(labelled({"color": "red"}, namespace="other"))
    assert selection({}).holds(labelled({}, namespace="other"))


def test_a_pod_that_comes_to_match_is_added_and_one_that_does_no_more_deleted() -> None:
    asked = selection({"labelSelector": "color=red"})
    happened = [
        (Change.ADDED, BLUE),
        (Change.MODIFIED, RED),
        (Change.MODIFIED, RED),
        (Change.MODIFIED, BLUE),
        (Change.MODIFIED, BLUE),
        (Change.MODIFIED, RED),
        (Change.DELETED, RED),
        (Change.ADDED, RED),
        (Change.DELETED, BLUE),
        (Change.DELETED, BLUE),
    ]
    added, modified, deleted = Change.ADDED, Change.MODIFIED, Change.DELETED
    seen = [None, added, modified, deleted, None, added, deleted, added, deleted, None]
    assert [asked.seen(*each) for each in happened] == seen


def test_an_end_is_seen_also_of_a_pod_that_came_and_went_unseen() -> None:
    assert selection({}).seen(Change.DELETED, RED) is Change.DELETED


def test_what_is_no_selector_is_refused() -> None:
    with pytest.raises(UsageError):
        selection({"labelSelector": "=color"})
