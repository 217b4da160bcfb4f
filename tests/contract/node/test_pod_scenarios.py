"""Pods as upstream's conformance tests take them (``test/e2e/common/node/pods.go``)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.contract.rigs.api_calls import MERGE, STRATEGIC, ApiCaller
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


async def test_a_new_pod_has_its_quality_of_service(node: Node) -> None:
    ask = ApiCaller(node.config.control_socket)
    amounts = {"cpu": "10m", "memory": "8Mi"}
    for name, resources, expected in (
        ("a", {"requests": amounts, "limits": amounts}, "Guaranteed"),
        ("b", {"requests": amounts}, "Burstable"),
        ("c", {}, "BestEffort"),
    ):
        value = pod(name)
        value["spec"]["containers"][0]["resources"] = resources
        assert (await ask("POST", PODS, value)).value["status"]["qosClass"] == expected
        await node.gone(name, gracePeriodSeconds="0")


async def test_a_pod_and_its_status_are_patched_while_others_watch(node: Node) -> None:
    ask, path = ApiCaller(node.config.control_socket), f"{PODS}/p"
    value = pod("p")
    value["metadata"]["labels"] = {"test": "life"}
    version = (await ask("GET", PODS)).value["metadata"]["resourceVersion"]
    assert (await ask("POST", PODS, value)).status == 201
    await node.pod_in("p", "Running")
    change = {
        "metadata": {"labels": {"patched": "yes"}},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": [{"name": "c", "image": "example.com/other:1"}]},
    }
    assert (await ask("PATCH", path, change, kind=STRATEGIC)).status == 200
    found = (await ask("GET", "/api/v1/pods", labelSelector="test=life,patched=yes")).value["items"]
    assert [each["spec"]["containers"][0]["image"] for each in found] == ["example.com/other:1"]
    fed = {"type": "example.com/fed", "status": "True", "reason": "E2E", "message": "Set by a test"}
    patched = await ask("PATCH", f"{path}/status", {"status": {"conditions": [fed]}}, kind=STRATEGIC)
    assert patched.status == 200
    status = (await ask("GET", f"{path}/status")).value["status"]
    [kept] = [each for each in status["conditions"] if each["type"] == "example.com/fed"]
    assert (kept["reason"], kept["message"]) == ("E2E", "Set by a test")
    for field in ("message", "reason"):
        refused = await ask("PATCH", f"{path}/status", {"status": {field: "E2E"}}, kind=STRATEGIC)
        assert (refused.status, refused.value["details"]["causes"][0]["field"]) == (422, f"status.{field}")
    assert (await ask("DELETE", PODS, labelSelector="test=life", gracePeriodSeconds="0")).status == 200
    await node.until_gone("p")
    query = {"watch": "true", "labelSelector": "test=life", "resourceVersion": version, "timeoutSeconds": "1"}
    events = (await ask("GET", PODS, **query)).value
    assert [events[0]["type"], events[-1]["type"]] == ["ADDED", "DELETED"]
    images = [event["object"]["spec"]["containers"][0]["image"] for event in events]
    assert sorted(set(images), key=images.index) == ["busybox", "example.com/other:1"]


async def test_another_image_starts_the_container_anew(node: Node) -> None:
    ask = ApiCaller(node.config.control_socket)
    await node.create(pod("p"))
    [before] = (await node.pod_in("p", "Running"))["status"]["containerStatuses"]
    change = {"spec": {"containers": [{"name": before["name"], "image": "example.com/other:1"}]}}
    changed = await ask("PATCH", f"{PODS}/p", change, kind=STRATEGIC)
    assert (changed.status, changed.value["spec"]["containers"][0]["image"]) == (200, "example.com/other:1")
    after = await node.until(
        PODS, lambda _, each: name_of(each) == "p" and each["status"]["containerStatuses"][0]["restartCount"] == 1
    )
    [container] = after["status"]["containerStatuses"]
    assert container["image"] == "example.com/other:1"
    assert container["containerID"] != before["containerID"]
    await node.gone("p", gracePeriodSeconds="0")


async def test_a_running_pod_gets_a_deadline(node: Node) -> None:
    ask = ApiCaller(node.config.control_socket)
    await node.create(pod("p"))
    await node.pod_in("p", "Running")
    path = f"{PODS}/p"
    assert (await ask("PATCH", path, {"spec": {"activeDeadlineSeconds": 600}}, kind=STRATEGIC)).status == 200
    later = await ask("PATCH", path, {"spec": {"activeDeadlineSeconds": 601}}, kind=STRATEGIC)
    assert (later.status, later.value["details"]["causes"][0]["field"]) == (422, "spec.activeDeadlineSeconds")
    assert (await ask("PATCH", path, {"spec": {"activeDeadlineSeconds": 1}}, kind=STRATEGIC)).status == 200
    failed = await node.pod_in("p", "Failed")
    assert failed["status"]["reason"] == "DeadlineExceeded"
    await node.gone("p", gracePeriodSeconds="0")


async def test_tolerations_are_added_and_stay(node: Node) -> None:
    ask = ApiCaller(node.config.control_socket)
    made = (await node.create(pod("p")))["spec"].get("tolerations", [])
    more = [*made, {"key": "example.com/wet", "operator": "Exists", "effect": "NoSchedule"}]
    added = await ask("PATCH", f"{PODS}/p", {"spec": {"tolerations": more}}, kind=MERGE)
    assert (added.status, added.value["spec"]["tolerations"]) == (200, more)
    fewer = await ask("PATCH", f"{PODS}/p", {"spec": {"tolerations": made}}, kind=MERGE)
    assert (fewer.status, fewer.value["details"]["causes"][0]["field"]) == (422, "spec.tolerations")
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
