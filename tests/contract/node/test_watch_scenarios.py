"""Watches as upstream's conformance tests take them (``test/e2e/apimachinery/watch.go``), over the socket of a node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from plugbay.node.api.reading import watching
from tests.contract.rigs.api_calls import ApiCaller, Json
from tests.contract.rigs.http_requests import Wire, connect
from tests.contract.rigs.node_run import DEADLINE_S, Node, running_node

CONFIGS = "/api/v1/namespaces/default/configmaps"
Told = tuple[str, str]


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


class Watch:
    """A watch of config maps on a connection of its own."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._lines: list[bytes] = []

    async def next(self) -> Json:
        async with asyncio.timeout(DEADLINE_S):
            while not self._lines:
                size = int(await self._wire.reader.readline(), 16)
                self._lines = [line for line in (await self._wire.reader.readexactly(size + 2)).splitlines() if line]
        event: Json = json.loads(self._lines.pop(0))
        return event

    async def told(self, number: int) -> list[Told]:
        """The types of the next events, each with the value that its object has."""
        events = [await self.next() for _ in range(number)]
        return [(event["type"], event["object"].get("data", {}).get("k", "")) for event in events]


@asynccontextmanager
async def watching_configs(node: Node, **query: str) -> AsyncIterator[Watch]:
    async with await connect(node.config.control_socket) as wire:
        wire.say(f"GET {CONFIGS}?{urlencode({'watch': 'true', **query})} HTTP/1.1", "Host: plugbay")
        assert (await wire.head())[0] == 200
        yield Watch(wire)


class Configs:
    """Makes, changes and deletes config maps."""

    def __init__(self, node: Node) -> None:
        self._ask = ApiCaller(node.config.control_socket)

    async def version(self) -> str:
        return str((await self._ask("GET", CONFIGS)).value["metadata"]["resourceVersion"])

    async def put(self, name: str, k: str, label: str) -> Any:
        metadata = {"name": name, "labels": {"watch": label}}
        body = {"metadata": metadata, "data": {"k": k}}
        answer = await self._ask("PUT", f"{CONFIGS}/{name}", body)
        if answer.status == 404:
            answer = await self._ask("POST", CONFIGS, body)
        assert answer.status in (200, 201), answer
        return answer.value

    async def delete(self, name: str) -> None:
        assert (await self._ask("DELETE", f"{CONFIGS}/{name}")).status == 200


async def test_each_watcher_is_told_of_what_it_selects(root: Path) -> None:
    async with running_node(root) as node:
        configs = Configs(node)
        version = await configs.version()
        selectors = ("watch=A", "watch=B", "watch in (A, B)")
        for selector in selectors:
            async with watching_configs(node, labelSelector=selector, resourceVersion=version) as watch:
                await configs.put("a", "1", "A")
                await configs.put("a", "2", "A")
                await configs.delete("a")
                await configs.put("b", "1", "B")
                await configs.delete("b")
                of_a: list[Told] = [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")] if "A" in selector else []
                of_b: list[Told] = [("ADDED", "1"), ("DELETED", "1")] if "B" in selector else []
                assert await watch.told(len(of_a + of_b)) == of_a + of_b
                version = await configs.version()


async def test_a_watch_starts_at_a_version_or_where_another_ended(root: Path) -> None:
    async with running_node(root) as node:
        configs = Configs(node)
        await configs.put("a", "1", "A")
        first = await configs.put("a", "2", "A")
        await configs.put("a", "3", "A")
        await configs.delete("a")
        version = first["metadata"]["resourceVersion"]
        async with watching_configs(node, resourceVersion=version) as watch:
            assert await watch.told(1) == [("MODIFIED", "3")]
            deleted = await watch.next()
        assert deleted["type"] == "DELETED"
        await configs.put("b", "4", "A")
        last = deleted["object"]["metadata"]["resourceVersion"]
        assert int(last) > int(version), "a deletion has a version of its own"
        async with watching_configs(node, resourceVersion=last) as watch:
            assert await watch.told(1) == [("ADDED", "4")]


async def test_an_object_that_is_selected_no_more_is_deleted_for_its_watchers(root: Path) -> None:
    async with running_node(root) as node:
        configs = Configs(node)
        async with watching_configs(node, labelSelector="watch=A", resourceVersion=await configs.version()) as watch:
            await configs.put("a", "1", "A")
            gone = await configs.put("a", "2", "other")
            await configs.put("a", "3", "other")
            await configs.put("a", "4", "A")
            await configs.put("a", "5", "A")
            await configs.delete("a")
            assert await watch.told(1) == [("ADDED", "1")]
            deleted = await watch.next()
            assert (deleted["type"], deleted["object"]["metadata"]["resourceVersion"]) == (
                "DELETED",
                gone["metadata"]["resourceVersion"],
            )
            assert (deleted["object"]["data"], deleted["object"]["metadata"]["labels"]) == ({"k": "1"}, {"watch": "A"})
            assert await watch.told(3) == [("ADDED", "4"), ("MODIFIED", "5"), ("DELETED", "5")]


async def test_watches_that_start_at_any_time_see_one_order(root: Path) -> None:
    async with running_node(root) as node:
        configs = Configs(node)
        version = await configs.version()

        async def write(name: str) -> None:
            for number in range(6):
                await configs.put(name, str(number), "A")
            await configs.delete(name)

        async with asyncio.TaskGroup() as tasks, watching_configs(node, resourceVersion=version) as watch:
            for name in ("a", "b", "c"):
                tasks.create_task(write(name))
            versions = [(await watch.next())["object"]["metadata"]["resourceVersion"] for _ in range(21)]
        assert versions == sorted(versions, key=int)
        for number in range(0, 21, 4):
            async with watching_configs(node, resourceVersion=versions[number]) as later:
                rest = [(await later.next())["object"]["metadata"]["resourceVersion"] for _ in versions[number + 1 :]]
            assert rest == versions[number + 1 :]


async def test_bookmarks_tell_a_quiet_watch_where_to_go_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_BOOKMARK_S", 0.05)
    async with running_node(root) as node:
        configs = Configs(node)
        query = {"labelSelector": "watch=A", "allowWatchBookmarks": "true", "resourceVersion": await configs.version()}
        async with watching_configs(node, **query) as watch:
            other = int((await configs.put("b", "1", "B"))["metadata"]["resourceVersion"])
            version = 0
            while version < other:
                event = await watch.next()
                assert (event["type"], event["object"].keys()) == ("BOOKMARK", {"kind", "apiVersion", "metadata"})
                version = int(event["object"]["metadata"]["resourceVersion"])
        await configs.put("a", "2", "A")
        async with watching_configs(node, labelSelector="watch=A", resourceVersion=str(version)) as watch:
            assert await watch.told(1) == [("ADDED", "2")]


async def test_a_watch_at_a_version_that_there_is_not_is_expired(root: Path) -> None:
    async with running_node(root) as node:
        version = await Configs(node).version()
        for odd in ("1", f"9{version}"):
            async with watching_configs(node, resourceVersion=odd) as watch:
                event = await watch.next()
                assert (event["type"], event["object"]["kind"], event["object"]["code"]) == ("ERROR", "Status", 410)
        ask = ApiCaller(node.config.control_socket)
        for odd in ("-1", "x", "\u0661", "1" * 19):
            refused = await ask("GET", CONFIGS, watch="true", resourceVersion=odd)
            assert (refused.status, refused.value["reason"]) == (400, "BadRequest")
