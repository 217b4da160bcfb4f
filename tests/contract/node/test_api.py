"""What the control socket takes and refuses: nothing that a client asks for is ignored in silence."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from plugbay.ops.http_client import ClientResponse, UnixHttpClient
from tests.contract.rigs.node_run import DEADLINE_S, PODS, Node, running_node

NODES = "/api/v1/nodes"
EVENTS = "/api/v1/events"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i", "command": ["sleep", "1000"]}]},
}
WAITING: dict[str, Any] = {
    **POD,
    "metadata": {"name": "w"},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"example.com/none": "1"}}}]},
}


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


async def ask(node: Node, method: str, path: str, body: object = None, /, **query: str) -> ClientResponse:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
    client = UnixHttpClient(node.config.control_socket, timeout_s=DEADLINE_S)
    return await asyncio.to_thread(client.request, method, path, query=query, body=sent)


def names(response: ClientResponse) -> list[str]:
    assert response.status == 200, response.body
    return [item["metadata"]["name"] for item in json.loads(response.body)["items"]]


def message(response: ClientResponse) -> str:
    assert response.status == 400, response.body
    return str(json.loads(response.body)["message"])


async def test_parameters_are_honoured_or_refused(root: Path) -> None:
    async with running_node(root) as node:
        for method, path, query in (
            ("POST", PODS, {"dryRun": "Some"}),
            ("POST", PODS, {"fieldValidation": "Lax"}),
            ("PUT", f"{PODS}/p", {"dryRun": "true"}),
            ("PUT", f"{PODS}/p", {"force": "true"}),
        ):
            assert next(iter(query)) in message(await ask(node, method, path, POD, **query))
        assert names(await ask(node, "GET", PODS)) == [], "a refused request made a pod"
        created = await ask(
            node, "POST", PODS, WAITING, fieldManager="kubectl", fieldValidation="Strict", pretty="true"
        )
        assert created.status == 201
        for method, path, query in (
            ("DELETE", f"{PODS}/w", {"dryRun": "Some"}),
            ("DELETE", f"{PODS}/w", {"propagationPolicy": "Never"}),
            ("DELETE", f"{PODS}/w", {"gracePeriodSeconds": "-1"}),
            ("GET", PODS, {"continue": "abc"}),
            ("DELETE", PODS, {"limit": "1"}),
            ("GET", PODS, {"labelselector": "a=b"}),
            ("GET", PODS, {"includeObject": "Some"}),
            ("GET", PODS, {"watch": "maybe"}),
            ("GET", PODS, {"resourceVersionMatch": "Newest"}),
            ("GET", f"{PODS}/w", {"watch": "true"}),
            ("GET", f"{PODS}/w/log", {"sinceTime": "yesterday"}),
            ("GET", f"{PODS}/w/log", {"sinceSeconds": "-5"}),
            ("POST", f"{PODS}/w/exec", {"commands": "ls"}),
            ("GET", NODES, {"watch": "maybe"}),
            ("GET", f"{NODES}/n1", {"exact": "true"}),
            ("GET", EVENTS, {"about": "w"}),
            ("GET", "/plugbay/v1/devices", {"resource": "a/b"}),
            ("POST", "/plugbay/v1/cordon", {"for": "1h"}),
            ("POST", "/plugbay/v1/uncordon", {"for": "1h"}),
            ("POST", "/plugbay/v1/drain", {"grace": "1"}),
            ("GET", "/healthz", {"exclude": "a"}),
        ):
            assert next(iter(query)) in message(await ask(node, method, path, **query))
        refused: object
        for refused in ({"dryRun": ["Some"]}, {"preconditions": {"name": "u"}}, {"gracePeriodSeconds": "1"}, []):
            assert message(await ask(node, "DELETE", f"{PODS}/w", refused))
        for other in ({"uid": "u"}, {"resourceVersion": "1"}):
            assert (await ask(node, "DELETE", f"{PODS}/w", {"preconditions": other})).status == 409
        assert names(await ask(node, "GET", PODS, limit="500", resourceVersion="0", timeoutSeconds="5")) == ["w"]
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        assert (await ask(node, "DELETE", f"{PODS}/w", {**options, "gracePeriodSeconds": 0})).status == 200


async def test_fields_select_pods_nodes_and_events(root: Path) -> None:
    async with running_node(root) as node:
        for pod in (POD, WAITING):
            assert (await ask(node, "POST", PODS, pod)).status == 201
        await node.pod_in("p", "Running")
        await node.event("FailedScheduling", "w")
        for selector, found in (
            ("metadata.name=p", ["p"]),
            ("metadata.name!=p,metadata.namespace=default", ["w"]),
            ("status.phase=Running", ["p"]),
            ("status.phase!=Running", ["w"]),
            ("spec.nodeName=n1", ["p"]),
            ("spec.nodeName=", ["w"]),
        ):
            assert names(await ask(node, "GET", PODS, fieldSelector=selector)) == found
        assert names(await ask(node, "GET", NODES, fieldSelector="metadata.name=n2")) == []
        assert names(await ask(node, "GET", NODES, labelSelector="kubernetes.io/os=linux")) == ["n1"]
        selector = "involvedObject.name=w,involvedObject.kind=Pod"
        events = json.loads((await ask(node, "GET", EVENTS, fieldSelector=selector)).body)["items"]
        assert {event["reason"] for event in events} == {"FailedScheduling"}
        assert names(await ask(node, "GET", EVENTS, labelSelector="a=b")) == []
        for path in (PODS, NODES, EVENTS):
            assert "spec.foo" in message(await ask(node, "GET", path, fieldSelector="spec.foo=1"))
        await node.gone("w", gracePeriodSeconds="0")
        await node.gone("p", gracePeriodSeconds="0")


async def test_a_watch_goes_on_where_a_list_ended(root: Path) -> None:
    async with running_node(root) as node:
        assert (await ask(node, "POST", PODS, WAITING)).status == 201
        await node.event("FailedScheduling", "w")
        version = json.loads((await ask(node, "GET", PODS)).body)["metadata"]["resourceVersion"]
        watch = {"watch": "true", "timeoutSeconds": "1"}
        assert (await ask(node, "GET", PODS, **watch, resourceVersion=version)).body == b""
        assert b'"ADDED"' in (await ask(node, "GET", PODS, **watch, resourceVersion="0")).body
        for path in (PODS, NODES, EVENTS):
            gone = json.loads((await ask(node, "GET", path, **watch, resourceVersion=f"9{version}")).body)
            assert (gone["type"], gone["object"]["code"], gone["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert b'"n1"' in (await ask(node, "GET", NODES, **watch)).body
        await node.gone("w", gracePeriodSeconds="0")


async def test_bodies_that_no_client_sends_are_refused(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_node(root) as node:
        for body in (
            b"[" * 100_000,
            b'{"metadata": ' * 5_000,
            json.dumps(POD).encode("utf-16"),
            json.dumps(POD).encode("utf-16-le"),
            b'{"metadata": NaN}',
            b"1" * 5_000,
            b"\xff",
        ):
            assert (await ask(node, "POST", PODS, body)).status == 400
        nested: object = "x"
        for _ in range(900):
            nested = {"a": nested}
        assert (await ask(node, "POST", PODS, {**POD, "spec": nested})).status in (400, 422)
        assert (await ask(node, "POST", "/plugbay/v1/drain", nested)).status in (200, 400)
    assert not [record for record in caplog.records if record.exc_info]


LABELLED = {"metadata": {"labels": {"a": "b"}}}


async def patch(node: Node, path: str, body: object, kind: str = "strategic-merge", /, **query: str) -> tuple[int, Any]:
    client = UnixHttpClient(node.config.control_socket, timeout_s=DEADLINE_S)
    media, sent = f"application/{kind}-patch+json", json.dumps(body).encode()
    response = await asyncio.to_thread(client.request, "PATCH", path, query=query, body=sent, content_type=media)
    return response.status, json.loads(response.body)


async def test_a_pod_is_patched(root: Path) -> None:
    async with running_node(root) as node:
        assert (await ask(node, "POST", PODS, WAITING)).status == 201
        pod = f"{PODS}/w"
        status, seen = await patch(node, pod, LABELLED, dryRun="All")
        assert (status, seen["metadata"]["labels"]) == (200, {"a": "b"})
        assert "labels" not in json.loads((await ask(node, "GET", pod)).body)["metadata"]
        assert (await patch(node, pod, LABELLED))[1]["metadata"]["labels"] == {"a": "b"}
        remove = [{"op": "remove", "path": "/metadata/labels/a"}]
        assert not (await patch(node, pod, remove, "json"))[1]["metadata"].get("labels")
        assert (await patch(node, pod, {"metadata": {"annotations": {"n": "1"}}}, "merge"))[0] == 200
        status, refused = await patch(node, pod, {"spec": {"hostNetwork": True}})
        assert (status, refused["reason"]) == (422, "Invalid")
        status, refused = await patch(node, pod, {"metadata": {"resourceVersion": "1"}})
        assert (status, refused["reason"]) == (409, "Conflict")
        assert (await patch(node, f"{PODS}/nobody", LABELLED))[0] == 404
        await node.gone("w", gracePeriodSeconds="0")


async def test_a_change_of_an_old_state_is_refused(root: Path) -> None:
    async with running_node(root) as node:
        assert (await ask(node, "POST", PODS, WAITING)).status == 201
        old = json.loads((await ask(node, "GET", f"{PODS}/w")).body)
        assert (await patch(node, f"{PODS}/w", LABELLED))[0] == 200
        refused = await ask(node, "PUT", f"{PODS}/w", old)
        assert (refused.status, json.loads(refused.body)["reason"]) == (409, "Conflict")
        await node.gone("w", gracePeriodSeconds="0")


async def test_a_rehearsal_changes_nothing(root: Path) -> None:
    async with running_node(root) as node:
        made = await ask(node, "POST", PODS, WAITING, dryRun="All")
        assert (made.status, json.loads(made.body)["metadata"]["name"]) == (201, "w")
        assert "resourceVersion" not in json.loads(made.body)["metadata"]
        assert names(await ask(node, "GET", PODS)) == []
        assert (await ask(node, "POST", PODS, WAITING)).status == 201
        assert (await ask(node, "POST", PODS, WAITING, dryRun="All")).status == 409
        assert (await ask(node, "DELETE", f"{PODS}/w", dryRun="All")).status == 200
        assert (await ask(node, "DELETE", PODS, dryRun="All")).status == 200
        assert (await ask(node, "POST", f"{PODS}/w/eviction", {"deleteOptions": {"dryRun": ["All"]}})).status == 201
        assert "deletionTimestamp" not in json.loads((await ask(node, "GET", f"{PODS}/w")).body)["metadata"]
        await node.gone("w", gracePeriodSeconds="0")


async def test_pods_are_evicted_and_deleted_together(root: Path) -> None:
    async with running_node(root) as node:
        for number in range(3):
            pod = {**WAITING, "metadata": {"name": f"w{number}", "labels": {"odd": str(number % 2)}}}
            assert (await ask(node, "POST", PODS, pod)).status == 201
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "w1"}}
        assert (await ask(node, "POST", f"{PODS}/w2/eviction", eviction)).status == 400
        assert (await ask(node, "POST", f"{PODS}/w1/eviction", eviction)).status == 201
        assert names(await ask(node, "DELETE", PODS, labelSelector="odd=0", gracePeriodSeconds="0")) == ["w0", "w2"]
        for name in ("w0", "w1", "w2"):
            await node.until_gone(name)


async def test_a_client_may_do_everything(root: Path) -> None:
    async with running_node(root) as node:
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        review = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}}}
        answer = await ask(node, "POST", path, review)
        assert answer.status == 201
        assert json.loads(answer.body)["status"]["allowed"] is True
        assert (await ask(node, "POST", path, [])).status == 400


async def test_a_client_that_knows_nothing_finds_its_way(root: Path) -> None:
    async with running_node(root) as node:
        paths = json.loads((await ask(node, "GET", "/")).body)["paths"]
        assert {"/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/openapi/v3"} <= set(paths)
        for path in paths:
            assert (await ask(node, "GET", path)).status == 200, path
        group = json.loads((await ask(node, "GET", "/apis/apps")).body)
        assert (group["kind"], group["apiVersion"], group["name"]) == ("APIGroup", "v1", "apps")
        [listed] = [
            each for each in json.loads((await ask(node, "GET", "/apis")).body)["groups"] if each["name"] == "apps"
        ]
        assert "kind" not in listed
