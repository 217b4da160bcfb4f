"""Events of the node and of its clients are one log, seen in two groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.rigs.api_calls import MERGE, TABLE, ApiCaller, Json
from tests.contract.rigs.node_run import pod, running_node

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
        assert (await ask("DELETE", CORE)).status == 405, "the node's own events cannot be deleted"
