"""Events of the node and of its clients are one log, seen in two groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from plugbay.node.api.stored.events import LIFETIME_S
from tests.contract.rigs.api_calls import MERGE, TABLE, ApiCaller, Json
from tests.contract.rigs.node_run import DEADLINE_S, LeapingClock, pod, running_node

CORE = "/api/v1/namespaces/default/events"
NEW = "/apis/events.k8s.io/v1/namespaces/default/events"
MOMENT = "2026-11-23T12:00:00.000000Z"
OLD_STYLE: Json = {
    "metadata": {"generateName": "gopher-"},
    "involvedObject": {"kind": "Gopher", "namespace": "default", "name": "g"},
    "reason": "Dug",
    "message": "3 m deep",
    "type": "Normal",
    "source": {"component": "gopher-controller"},
    "count": 1,
    "firstTimestamp": "2026-11-23T12:00:00Z",
    "lastTimestamp": "2026-11-23T12:00:00Z",
}
NEW_STYLE: Json = {
    "metadata": {"name": "new.1"},
    "regarding": {"kind": "Gopher", "namespace": "default", "name": "h"},
    "reason": "Rested",
    "note": "for an hour",
    "type": "Normal",
    "eventTime": MOMENT,
    "action": "Rest",
    "reportingController": "example.com/gopher",
    "reportingInstance": "g-0",
}


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


async def until(ask: ApiCaller, path: str, wanted: Callable[[list[Json]], bool]) -> None:
    """Wait until the list at ``path`` is as wanted; it is looked at after each change."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            found = (await ask("GET", path)).value
            if wanted(found["items"]):
                return
            version = found["metadata"]["resourceVersion"]
            await ask("GET", path, watch="true", resourceVersion=version, timeoutSeconds="1")


def names(items: list[Json]) -> list[str]:
    return [each["metadata"]["name"] for each in items]


async def test_clients_record_events_in_either_group(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        version = (await ask("GET", CORE)).value["metadata"]["resourceVersion"]
        made = await ask("POST", CORE, OLD_STYLE)
        assert (made.status, made.warnings) == (201, [])
        again = await ask("PATCH", f"{CORE}/{made.value['metadata']['name']}", {"count": 2}, kind=MERGE)
        assert again.value["count"] == 2
        assert (await ask("POST", NEW, NEW_STYLE)).status == 201
        seen = {each["reason"]: each for each in (await ask("GET", CORE)).value["items"]}
        assert (seen["Rested"]["message"], seen["Rested"]["involvedObject"]["name"]) == ("for an hour", "h")
        assert seen["Rested"]["apiVersion"] == "v1"
        seen = {each["reason"]: each for each in (await ask("GET", NEW)).value["items"]}
        assert (seen["Dug"]["note"], seen["Dug"]["deprecatedCount"]) == ("3 m deep", 2)
        assert seen["Dug"]["reportingController"] == "gopher-controller"
        rows = (await ask("GET", NEW, accept=TABLE, fieldSelector="regarding.name=g")).value["rows"]
        assert [each["cells"][1:5] for each in rows] == [["Normal", "Dug", "gopher/g", "3 m deep"]]
        told = (await ask("GET", CORE, watch="true", resourceVersion=version, timeoutSeconds="1")).value
        assert [(each["type"], each["object"]["reason"]) for each in told] == [
            ("ADDED", "Dug"),
            ("MODIFIED", "Dug"),
            ("ADDED", "Rested"),
        ]
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        assert {each["reason"] for each in (await ask("GET", CORE)).value["items"]} >= {"Dug", "Rested"}


async def test_events_of_the_node_are_in_both_groups(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", "/api/v1/namespaces/default/pods", pod("p", terminationGracePeriodSeconds=0))
        await node.event("Started", "p")
        seen = (await ask("GET", NEW, fieldSelector="reason=Started")).value["items"]
        assert [(each["regarding"]["name"], each["reportingController"]) for each in seen] == [("p", "kubelet")]
        await node.gone("p", gracePeriodSeconds="0")


async def test_events_that_say_too_little_are_refused(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        for field in ("action", "reason", "eventTime", "reportingController"):
            short = {name: each for name, each in NEW_STYLE.items() if name != field}
            refused = await ask("POST", NEW, short)
            assert (refused.status, refused.value["details"]["causes"][0]["field"]) == (422, field)
        elsewhere = OLD_STYLE | {"involvedObject": {"kind": "Gopher", "namespace": "lab", "name": "g"}}
        assert (await ask("POST", CORE, elsewhere)).status == 422


async def test_clients_delete_events_of_either_kind_in_either_group(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", "/api/v1/namespaces/default/pods", pod("p", terminationGracePeriodSeconds=0))
        await node.event("Started", "p")
        [started] = (await ask("GET", CORE, fieldSelector="reason=Started")).value["items"]
        own = f"{NEW}/{started['metadata']['name']}"
        assert (await ask("DELETE", own, dryRun="All")).status == 200
        other = await ask("DELETE", own, {"preconditions": {"uid": "another"}})
        assert other.status == 409
        assert (await ask("DELETE", own)).value["status"] == "Success"
        assert (await ask("DELETE", own)).status == 404
        assert (await ask("POST", NEW, NEW_STYLE)).status == 201
        assert (await ask("DELETE", f"{CORE}/new.1")).status == 200
        assert (await ask("POST", CORE, OLD_STYLE)).status == 201
        gone = (await ask("DELETE", CORE, fieldSelector="involvedObject.name!=p")).value["items"]
        assert {each["reason"] for each in gone} >= {"Dug"}
        left = (await ask("GET", CORE)).value["items"]
        assert {each["involvedObject"]["name"] for each in left} == {"p"}
        await node.gone("p", gracePeriodSeconds="0")


async def test_events_go_an_hour_after_their_last_change_and_with_their_namespace(root: Path) -> None:
    clock = LeapingClock()
    async with running_node(root, clock) as node:
        ask = ApiCaller(node.config.control_socket)
        space: Json = {"metadata": {"name": "lab"}}
        await ask("POST", "/api/v1/namespaces", space)
        await ask("POST", "/api/v1/namespaces/lab/pods", pod("p", nodeSelector={"no": "such"}))
        lab = "/api/v1/namespaces/lab/events"
        await until(ask, lab, lambda items: [each["reason"] for each in items] == ["FailedScheduling"])
        await ask("DELETE", "/api/v1/namespaces/lab")
        await until(ask, "/api/v1/namespaces", lambda items: "lab" not in names(items))
        assert (await ask("GET", lab)).value["items"] == []
        assert (await ask("POST", CORE, OLD_STYLE)).status == 201
        await ask("POST", "/api/v1/namespaces/default/pods", pod("w", nodeSelector={"no": "such"}))
        await until(ask, CORE, lambda items: "FailedScheduling" in {each["reason"] for each in items})
        clock.leap(LIFETIME_S + 1)
        await until(ask, CORE, lambda items: not {"Dug", "FailedScheduling"} & {each["reason"] for each in items})
        await node.gone("w", gracePeriodSeconds="0")
