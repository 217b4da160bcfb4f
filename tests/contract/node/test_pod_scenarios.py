"""Pods as upstream's conformance tests take them (``test/e2e/common/node/pods.go``)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.contract.rigs.api_calls import STRATEGIC, ApiCaller
from tests.contract.rigs.node_run import PODS, Node, name_of, pod, running_node


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


@pytest.fixture
async def node(root: Path) -> AsyncIterator[Node]:
    async with running_node(root) as running:
        yield running


async def test_a_labelled_pod_is_submitted_found_and_removed(node: Node) -> None:
    ask = ApiCaller(node.config.control_socket)
    value = pod("p")
    value["metadata"]["labels"] = {"time": "1"}
    version = (await ask("GET", PODS, labelSelector="time=1")).value["metadata"]["resourceVersion"]
    assert (await ask("POST", PODS, value)).status == 201
    running = await node.pod_in("p", "Running")
    assert running["status"]["startTime"]
    assert ip_address(running["status"]["hostIP"])
    listed = (await ask("GET", PODS, labelSelector="time=1")).value
    assert [name_of(each) for each in listed["items"]] == ["p"]
    await node.gone("p", gracePeriodSeconds="1")
    query = {"watch": "true", "labelSelector": "time=1", "resourceVersion": version, "timeoutSeconds": "1"}
    events = (await ask("GET", PODS, **query)).value
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-1], set(kinds[1:-1])) == ("ADDED", "DELETED", {"MODIFIED"})
    assert "deletionTimestamp" in events[-1]["object"]["metadata"]
    assert (await ask("GET", PODS, labelSelector="time=1")).value["items"] == []


async def test_the_labels_of_a_running_pod_change(node: Node) -> None:
    ask = ApiCaller(node.config.control_socket)
    value = pod("p")
    value["metadata"]["labels"] = {"time": "1"}
    made = (await ask("POST", PODS, value)).value
    await node.pod_in("p", "Running")
    assert (await ask("PATCH", f"{PODS}/p", {"metadata": {"labels": {"time": "2"}}}, kind=STRATEGIC)).status == 200
    for selector, names in (("time=1", []), ("time=2", ["p"])):
        assert [name_of(each) for each in (await ask("GET", PODS, labelSelector=selector)).value["items"]] == names
    stale = await ask("PUT", f"{PODS}/p", made)
    assert (stale.status, stale.value["reason"]) == (409, "Conflict")
    await node.gone("p", gracePeriodSeconds="0")


async def test_selected_pods_that_wait_are_deleted_together(node: Node) -> None:
    ask = ApiCaller(node.config.control_socket)
    for name, kind in (("a", "x"), ("b", "x"), ("c", "y")):
        value = pod(name, gophers=1)
        value["metadata"]["labels"] = {"type": kind}
        assert (await ask("POST", PODS, value)).status == 201
    assert (await ask("DELETE", PODS, labelSelector="type=x", gracePeriodSeconds="0")).status == 200
    assert [name_of(each) for each in (await ask("GET", PODS)).value["items"]] == ["c"]
    await node.gone("c", gracePeriodSeconds="0")


async def test_pods_and_templates_are_shown_with_their_defaults(node: Node) -> None:
    ask = ApiCaller(node.config.control_socket)
    made = (await ask("POST", PODS, pod("p"))).value
    spec, [container] = made["spec"], made["spec"]["containers"]
    assert (spec["securityContext"], spec["dnsPolicy"], spec["enableServiceLinks"]) == ({}, "ClusterFirst", True)
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    assert (container["imagePullPolicy"], container["resources"]) == ("Always", {})
    assert (await ask("GET", f"{PODS}/p")).value["spec"].keys() >= spec.keys()
    again = await ask("PUT", f"{PODS}/p", pod("p"))
    assert (again.status, again.value["spec"]["dnsPolicy"]) == (200, "ClusterFirst")
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    deployment = {"metadata": {"name": "d"}, "spec": {"replicas": 0, "selector": labels, "template": template}}
    stored = (await ask("POST", "/apis/apps/v1/namespaces/default/deployments", deployment)).value
    inner = stored["spec"]["template"]["spec"]
    assert (inner["schedulerName"], inner["securityContext"]) == ("default-scheduler", {})
    assert inner["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert not inner.keys() & {"enableServiceLinks", "serviceAccountName"}, "these are a pod's"
    await node.gone("p", gracePeriodSeconds="0")


async def test_an_update_makes_no_pod(node: Node) -> None:
    ask = ApiCaller(node.config.control_socket)
    missing = await ask("PUT", f"{PODS}/p", pod("p"))
    assert (missing.status, missing.value["reason"], missing.value["message"]) == (
        404,
        "NotFound",
        'pods "p" not found',
    )
    assert (await ask("GET", PODS)).value["items"] == []


async def test_a_new_pod_names_no_state(node: Node) -> None:
    ask = ApiCaller(node.config.control_socket)
    value = pod("p")
    value["metadata"]["resourceVersion"] = "1"
    refused = await ask("POST", PODS, value)
    assert (refused.status, refused.value["message"]) == (
        400,
        "resourceVersion should not be set on objects to be created",
    )
