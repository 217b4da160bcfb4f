"""What an API server refuses of pods and their classes, and what clients may write to a pod that is being deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from plugbay.ops.listening import TcpAddress
from plugbay.pods.running.projecting import ROOT_AUTHORITY
from tests.contract.rigs.api_calls import MERGE, ApiCaller, Json
from tests.contract.rigs.node_run import DEADLINE_S, PODS, pod, running_node

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
async def ask(sockets: Path) -> AsyncIterator[ApiCaller]:
    async with running_node(sockets, api=TcpAddress("127.0.0.1", 0)) as node:
        yield ApiCaller(node.config.control_socket)


def held(name: str) -> Json:
    """A pod that does not run, with a finalizer."""
    value = pod(name, nodeSelector={"no": "such"})
    value["metadata"]["finalizers"] = ["example.com/hold"]
    return value


async def test_a_client_takes_the_last_finalizer_away_by_put(ask: ApiCaller) -> None:
    assert (await ask("POST", PODS, held("p"))).status == 201
    deleted = (await ask("DELETE", f"{PODS}/p")).value
    assert "deletionTimestamp" in deleted["metadata"]
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    refused = await ask("PATCH", f"{PODS}/p", more, kind=MERGE)
    assert refused.status == 422
    assert 'found new finalizers []string{"example.com/more"}' in refused.value["message"]
    assert (await ask("PUT", f"{PODS}/p", held("p"))).status == 409, "a manifest is meant for a new pod"
    seen = (await ask("GET", f"{PODS}/p")).value
    seen["metadata"]["finalizers"] = []
    assert (await ask("PUT", f"{PODS}/p", seen)).status == 200
    assert (await ask("GET", f"{PODS}/p")).status == 404


async def test_a_collection_of_pods_is_deleted_as_its_policy_says(ask: ApiCaller) -> None:
    assert (await ask("POST", PODS, held("p"))).status == 201
    assert (await ask("DELETE", PODS, {"propagationPolicy": "Foreground"})).status == 200
    await ask("PATCH", f"{PODS}/p", {"metadata": {"finalizers": None}}, kind=MERGE)
    async with asyncio.timeout(DEADLINE_S):
        while version := (found := (await ask("GET", PODS)).value)["metadata"]["resourceVersion"]:
            if not found["items"]:
                break
            await ask("GET", PODS, watch="true", resourceVersion=version, timeoutSeconds="1")


async def test_a_pod_names_an_account_that_there_is(ask: ApiCaller) -> None:
    refused = await ask("POST", PODS, pod("p", serviceAccountName="robot"))
    assert refused.status == 403
    wanted = 'error looking up service account default/robot: serviceaccount "robot" not found'
    assert refused.value["message"] == f'pods "p" is forbidden: {wanted}'
    await ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
    made = pod("p", serviceAccountName="robot", nodeSelector={"no": "such"})
    assert (await ask("POST", PODS, made)).status == 201
    await ask("DELETE", f"{PODS}/p")


async def test_one_priority_class_is_the_default(ask: ApiCaller) -> None:
    for name, status in (("first", 201), ("second", 403)):
        answer = await ask("POST", CLASSES, {"metadata": {"name": name}, "value": 5, "globalDefault": True})
        assert answer.status == status
    assert "PriorityClass first is already marked as default." in answer.value["message"]
    assert (await ask("POST", CLASSES, {"metadata": {"name": "second"}, "value": 5})).status == 201
    assert (await ask("PATCH", f"{CLASSES}/second", {"globalDefault": True}, kind=MERGE)).status == 403
    assert (await ask("PATCH", f"{CLASSES}/first", {"globalDefault": False}, kind=MERGE)).status == 200


async def test_each_namespace_has_the_authority_of_the_api(ask: ApiCaller) -> None:
    await ask("POST", "/api/v1/namespaces", {"metadata": {"name": "lab"}})
    for place in ("default", "lab"):
        assert (await authority(ask, place))["data"]["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
    deleted = (await ask("DELETE", f"/api/v1/namespaces/lab/configmaps/{ROOT_AUTHORITY}")).value
    assert (await authority(ask, "lab"))["metadata"]["uid"] != deleted["details"]["uid"]


async def authority(ask: ApiCaller, namespace: str) -> Json:
    place = f"/api/v1/namespaces/{namespace}/configmaps"
    async with asyncio.timeout(DEADLINE_S):
        while not (found := (await ask("GET", place)).value)["items"]:
            version = found["metadata"]["resourceVersion"]
            await ask("GET", place, watch="true", resourceVersion=version, timeoutSeconds="1")
        return dict(found["items"][0])
