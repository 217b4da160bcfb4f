"""Watches: where they begin, what they tell, and when they cannot go on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest

from plugbay.node.api.reading import watching
from plugbay.node.api.reading.collection import Collection
from plugbay.node.api.reading.items import ApiItem
from plugbay.node.api.reading.watching import watch_response
from plugbay.node.api.resources import PODS
from plugbay.ops.routing import Request

DEADLINE_S = 20
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def now() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


def item(name: str, version: int, **labels: str) -> ApiItem:
    return ApiItem("default", name, version, lambda: {"kind": "Pod", "metadata": {"name": name, "labels": labels}})


class Watch:
    """Reads the events of one watch."""

    def __init__(self, collection: Collection, query: Mapping[str, str], accept: str = "") -> None:
        request = Request("GET", "/", query={"watch": "true", **query}, headers={"accept": accept})
        self.lines: Any = watch_response(collection, PODS, request, now).chunks
        self._read: list[dict[str, Any]] = []

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE_S):
            while not self._read:
                self._read += [json.loads(line) for line in (await anext(self.lines)).splitlines()]
        return self._read.pop(0)

    async def told(self) -> tuple[str, str]:
        """The type of the next event, and the name or the version that it is about."""
        event = await self.next()
        metadata = event["object"]["metadata"]
        return event["type"], metadata.get("name") or metadata["resourceVersion"]


async def test_without_a_version_all_objects_come_first() -> None:
    collection = Collection(1, [item("a", 1)])
    watch = Watch(collection, {})
    assert await watch.told() == ("ADDED", "a")
    collection.put(item("b", 2))
    collection.put(item("a", 3))
    collection.remove(item("b", 4))
    assert [await watch.told() for _ in range(3)] == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


async def test_changes_since_a_list_are_told_each() -> None:
    collection = Collection(1, [item("a", 1)])
    collection.put(item("a", 2))
    collection.put(item("a", 3))
    collection.remove(item("a", 4))
    watch = Watch(collection, {"resourceVersion": "2"})
    first = await watch.next()
    assert (first["type"], first["object"]["metadata"]["resourceVersion"]) == ("MODIFIED", "3")
    assert await watch.told() == ("DELETED", "a")


@pytest.mark.parametrize("version", ["1", "900"])
async def test_a_version_of_which_nothing_is_known_ends_the_watch(version: str) -> None:
    collection = Collection(5, kept=2)
    for number in range(6, 10):
        collection.put(item("a", number))
    event = await Watch(collection, {"resourceVersion": version}).next()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


async def test_a_reader_that_is_too_slow_is_told_to_list_again() -> None:
    collection = Collection(1, kept=3)
    watch = Watch(collection, {"resourceVersion": "1"})
    collection.put(item("a", 2))
    assert await watch.told() == ("ADDED", "a")
    for number in range(3, 20):
        collection.put(item("a", number))
    assert (await watch.next())["object"]["code"] == 410


async def test_labels_decide_what_is_told() -> None:
    collection = Collection(1)
    watch = Watch(collection, {"resourceVersion": "1", "labelSelector": "color=red"})
    collection.put(item("a", 2, color="blue"))
    collection.put(item("a", 3, color="red"))
    collection.put(item("a", 4, color="blue"))
    assert [await watch.told() for _ in range(2)] == [("ADDED", "a"), ("DELETED", "a")]


async def test_the_end_of_the_first_objects_is_marked() -> None:
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    watch = Watch(Collection(7, [item("a", 3)]), query)
    assert await watch.told() == ("ADDED", "a")
    event = await watch.next()
    assert event["type"] == "BOOKMARK"
    assert event["object"]["metadata"] == {
        "resourceVersion": "7",
        "annotations": {"k8s.io/initial-events-end": "true"},
    }


@pytest.mark.parametrize("version", [{}, {"resourceVersion": "0"}])
async def test_a_watch_may_do_without_the_first_objects(version: dict[str, str]) -> None:
    collection = Collection(7, [item("a", 3)])
    watch = Watch(collection, {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan", **version})
    collection.put(item("b", 8))
    assert await watch.told() == ("ADDED", "b")


async def test_bookmarks_tell_how_far_a_quiet_watch_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_BOOKMARK_S", 0.01)
    collection = Collection(7)
    watch = Watch(collection, {"resourceVersion": "7", "allowWatchBookmarks": "true"})
    async with aclosing(watch.lines):
        assert await watch.told() == ("BOOKMARK", "7")
        collection.put(item("a", 8))
        while (told := await watch.told()) == ("BOOKMARK", "7"):
            pass
        assert told in (("ADDED", "a"), ("BOOKMARK", "8"))


async def test_rows_are_watched_too() -> None:
    collection = Collection(1, [item("a", 1)])
    event = await Watch(collection, {}, TABLE).next()
    assert event["object"]["kind"] == "Table"
    assert [row["cells"][0] for row in event["object"]["rows"]] == ["a"]


async def test_it_ends_after_its_time() -> None:
    watch = Watch(Collection(1), {"resourceVersion": "1", "timeoutSeconds": "1"})
    with pytest.raises(StopAsyncIteration):
        await watch.next()


def large(version: int) -> ApiItem:
    metadata = {"name": "a", "namespace": "default", "resourceVersion": str(version)}
    return ApiItem.of({"metadata": metadata, "data": {"a": "x" * 900_000}})


async def test_large_changes_are_told_one_by_one_and_share_their_text() -> None:
    collection = Collection(1)
    watch, other = (Watch(collection, {"resourceVersion": "1"}) for _ in range(2))
    for version in range(2, 5):
        collection.put(large(version))
    async with aclosing(watch.lines), aclosing(other.lines):
        pieces = [await anext(watch.lines) for _ in range(9)]
        shared = [await anext(other.lines) for _ in range(9)]
    assert [len(piece) > 900_000 for piece in pieces] == [False, True, False] * 3
    assert all(piece is same for piece, same in zip(pieces[1::3], shared[1::3], strict=True))
    assert [json.loads(b"".join(pieces[at : at + 3]))["object"]["metadata"]["resourceVersion"] for at in (0, 3, 6)] == [
        *("2", "3", "4")
    ]


async def test_a_slow_reader_of_large_changes_keeps_none_but_the_last_ones() -> None:
    collection = Collection(1)
    watch = Watch(collection, {"resourceVersion": "1"})
    collection.put(large(2))
    async with aclosing(watch.lines):
        assert b"ADDED" in await anext(watch.lines)
        for version in range(3, 40):
            collection.put(large(version))
        rest = [await anext(watch.lines) for _ in range(2)]
        assert len(rest[0]) > 900_000, "what was begun is told"
        assert json.loads(await anext(watch.lines))["object"]["code"] == 410
