"""The node as an object that clients write, and pods that are placed by it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.model.nodes import NodeInput
from plugbay.model.taints import Effect, Taint
from plugbay.node.api.writing.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.contract.rigs.api_calls import MERGE, ApiAnswer, ApiCaller
from tests.contract.rigs.node_run import PODS, RESOURCE, Json, LeapingClock, Node, gophers, name_of, running_node

NODE: Final = "/api/v1/nodes/n1"


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


def sleeper(name: str, *, limits: Json | None = None, **spec: Any) -> Json:
    container = {"name": "c", "image": "i", "command": ["sleep", "1000"], "resources": {"limits": limits or {}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def caller(node: Node) -> ApiCaller:
    return ApiCaller(node.config.control_socket)


async def patch(
    node: Node, patch: object, path: str = NODE, kind: str = STRATEGIC_MERGE_PATCH, **query: str
) -> ApiAnswer:
    return await caller(node)("PATCH", path, patch, kind=kind, **query)


async def test_what_clients_write_to_the_node_survives_a_restart(root: Path) -> None:
    taint = {"key": "dedicated", "value": "lab", "effect": "NoSchedule"}
    async with running_node(root) as node:
        await patch(node, {"metadata": {"labels": {"disk": "ssd"}, "annotations": {"note": "any text"}}})
        await patch(node, {"spec": {"taints": [taint], "unschedulable": True}}, kind=MERGE_PATCH)
    async with running_node(root) as node:
        found = await node.get(NODE)
        assert found["metadata"]["labels"]["disk"] == "ssd"
        assert found["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
        assert found["metadata"]["annotations"] == {"note": "any text"}
        assert found["spec"]["taints"][0] == taint
        assert found["spec"]["taints"][1]["key"] == "node.kubernetes.io/unschedulable"
        await patch(node, {"spec": {"taints": None, "unschedulable": None}, "metadata": {"labels": {"disk": None}}})
        found = await node.get(NODE)
        assert found["spec"] == {}
        assert "disk" not in found["metadata"]["labels"]


async def test_watchers_of_the_node_see_what_clients_write(root: Path) -> None:
    async with running_node(root) as node:
        await patch(node, {"metadata": {"labels": {"disk": "ssd"}}})
        await node.until("/api/v1/nodes", lambda _, found: found["metadata"]["labels"].get("disk") == "ssd")


async def test_the_node_is_replaced_as_a_whole(root: Path) -> None:
    async with running_node(root) as node:
        wanted = await node.get(NODE)
        wanted["metadata"]["labels"]["disk"] = "hdd"
        wanted["status"]["capacity"] = {}
        answer = await caller(node)("PUT", NODE, wanted)
        assert (answer.status, answer.value["metadata"]["labels"]["disk"]) == (200, "hdd")
        assert answer.value["status"]["capacity"]["pods"] == "110", "the status is not changed so"
        stale = copy.deepcopy(wanted) | {"metadata": wanted["metadata"] | {"resourceVersion": "1"}}
        assert (await caller(node)("PUT", NODE, stale)).status == 409
        assert (await caller(node)("PUT", "/api/v1/nodes/n2", wanted)).status == 404


async def test_a_rehearsal_shows_what_would_become_of_the_node(root: Path) -> None:
    async with running_node(root) as node:
        answer = await patch(node, {"metadata": {"labels": {"disk": "ssd"}}}, dryRun="All")
        assert answer.value["metadata"]["labels"]["disk"] == "ssd"
        assert "disk" not in (await node.get(NODE))["metadata"]["labels"]


LABELS: Final = "metadata.labels"


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        (
            {"metadata": {"labels": {"kubernetes.io/os": "plan9"}}},
            f"{LABELS}[kubernetes.io/os]",
            "FieldValueForbidden",
        ),
        ({"metadata": {"labels": {"disk": "not a value"}}}, f"{LABELS}.disk", "FieldValueInvalid"),
        ({"metadata": {"finalizers": ["a/b"]}}, "metadata.finalizers", "FieldValueForbidden"),
        ({"spec": {"podCIDR": "10.0.0.0/24"}}, "spec.podCIDR", "FieldValueForbidden"),
        ({"spec": {"taints": [{"key": "a", "effect": "No"}]}}, "spec.taints[0].effect", "FieldValueNotSupported"),
        ({"spec": {"taints": [{"key": "a"}]}}, "spec.taints[0].effect", "FieldValueRequired"),
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}}, "spec.taints[1]", "FieldValueDuplicate"),
        ({"spec": {"unschedulable": "yes"}}, "spec.unschedulable", "FieldValueTypeInvalid"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_a_node_cannot_be_is_refused_by_name(root: Path, change: Json, field: str, reason: str) -> None:
    async with running_node(root) as node:
        before = await node.get(NODE)
        refused = (await patch(node, change)).value
        assert (refused["code"], refused["reason"]) == (422, "Invalid"), refused
        assert refused["message"].startswith(f'Node "n1" is invalid: {field}: ')
        assert [(each["field"], each["reason"]) for each in refused["details"]["causes"]] == [(field, reason)]
        assert await node.get(NODE) == before


async def test_clients_advertise_resources_that_no_plugin_has(root: Path) -> None:
    advertised = [{"op": "add", "path": "/status/capacity/example.com~1dongle", "value": "2"}]
    async with running_node(root) as node:
        answer = await patch(node, advertised, f"{NODE}/status", kind=JSON_PATCH)
        assert answer.value["status"]["allocatable"]["example.com/dongle"] == "2"
        await node.create(sleeper("a", limits={"example.com/dongle": 2}))
        await node.pod_in("a", "Running")
        await node.create(sleeper("b", limits={"example.com/dongle": 1}))
        event = await node.event("FailedScheduling", "b")
        assert event["message"].startswith("0/1 nodes are available: 1 Insufficient example.com/dongle.")
        await node.create(sleeper("c", limits={"example.com/dongle": 1}, nodeName="n1"))
        failed = await node.pod_in("c", "Failed")
        assert failed["status"]["message"] == (
            "Pod was rejected: Node didn't have enough resource: example.com/dongle, requested: 1, used: 2, capacity: 2"
        )
    async with running_node(root) as node:
        await node.pod_in("a", "Running")
        await patch(node, {"status": {"capacity": {"example.com/dongle": None}}}, f"{NODE}/status", kind=MERGE_PATCH)
        assert "example.com/dongle" not in (await node.get(NODE))["status"]["capacity"]
        await node.gone("a")


async def test_the_status_that_the_node_tells_itself_is_kept(root: Path) -> None:
    status = f"{NODE}/status"
    async with running_node(root) as node:
        for part in (
            {"capacity": {"cpu": "99"}},
            {"capacity": {"dongle": "1"}},
            {"capacity": {"example.com/dongle": "1.5"}},
            {"conditions": [{"type": "Ready", "status": "False"}]},
            {"nodeInfo": {"kernelVersion": "99"}},
            {"phase": "x"},
        ):
            assert (await patch(node, {"status": part}, status)).status == 422, part
        dusty = {"type": "Dusty", "status": "True", "reason": "Wind"}
        await patch(node, {"status": {"conditions": [dusty]}, "spec": {"unschedulable": True}}, status)
        found = await node.get(NODE)
        assert [each["type"] for each in found["status"]["conditions"]] == ["Dusty", "Ready"]
        assert found["spec"] == {}, "the spec is not changed so"


async def test_a_node_registers_with_labels_and_taints_once(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = NodeInput({"disk": "ssd"}, taints=(Taint("booting", Effect.NO_SCHEDULE),))
    async with running_node(root, registers_with=settings) as node:
        assert (await node.get(NODE))["spec"]["taints"] == [{"key": "booting", "effect": "NoSchedule"}]
        await patch(node, {"spec": {"taints": None}})
    assert "count when a node registers" not in caplog.text
    async with running_node(root, registers_with=settings) as node:
        found = await node.get(NODE)
        assert (found["spec"], found["metadata"]["labels"]["disk"]) == ({}, "ssd")
    assert "count when a node registers" in caplog.text


async def test_a_pod_is_shown_with_what_an_api_server_fills_in(root: Path) -> None:
    async with running_node(root) as node:
        spec = (await node.create(sleeper("p", priorityClassName="system-node-critical")))["spec"]
        assert (spec["priority"], spec["preemptionPolicy"]) == (2000001000, "PreemptLowerPriority")
        assert spec["schedulerName"] == "default-scheduler"
        assert [each["key"] for each in spec["tolerations"]] == [
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        ]
        assert {each["tolerationSeconds"] for each in spec["tolerations"]} == {300}
        again = await caller(node)("PUT", f"{PODS}/p", sleeper("p", priorityClassName="system-node-critical"))
        assert again.status == 200
        refused = await caller(node)("POST", PODS, sleeper("q", priorityClassName="none"))
        assert (refused.status, refused.value["reason"]) == (403, "Forbidden")
        assert refused.value["message"] == 'pods "q" is forbidden: no PriorityClass with name none was found'
        await node.gone("p")


async def test_a_scheduler_of_ones_own_binds_pods(root: Path) -> None:
    def binding(target: str) -> Json:
        return {"metadata": {"name": "p"}, "target": {"apiVersion": "v1", "kind": "Node", "name": target}}

    async with running_node(root) as node:
        await node.create(sleeper("p", schedulerName="volcano"))
        path = f"{PODS}/p/binding"
        assert (await caller(node)("POST", path, binding("n2"))).status == 422
        assert (await caller(node)("POST", path, binding("n1"), dryRun="All")).status == 201
        assert "nodeName" not in (await node.get(f"{PODS}/p"))["spec"]
        assert (await caller(node)("POST", path, binding("n1"))).status == 201
        await node.pod_in("p", "Running")
        refused = await caller(node)("POST", path, binding("n1"))
        assert (refused.status, refused.value["message"]) == (
            409,
            'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"',
        )
        await node.gone("p")


async def test_a_gate_is_lifted_and_the_node_labelled_before_a_pod_runs(root: Path) -> None:
    async with running_node(root) as node:
        await node.create(sleeper("p", schedulingGates=[{"name": "example.com/quota"}], nodeSelector={"disk": "ssd"}))
        lifted = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
        assert (await patch(node, lifted, f"{PODS}/p", kind=JSON_PATCH)).status == 200
        event = await node.event("FailedScheduling", "p")
        assert "1 node(s) didn't match Pod's node affinity/selector." in event["message"]
        await patch(node, {"metadata": {"labels": {"disk": "ssd"}}})
        await node.pod_in("p", "Running")
        await node.gone("p")


async def test_a_taint_evicts_the_pods_that_do_not_tolerate_it(root: Path) -> None:
    tolerant = [{"key": "broken", "operator": "Exists", "effect": "NoExecute"}]
    async with running_node(root) as node:
        await node.create(sleeper("gone"))
        await node.create(sleeper("stays", tolerations=tolerant))
        for name in ("gone", "stays"):
            await node.pod_in(name, "Running")
        await patch(node, {"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}})
        event = await node.event("TaintManagerEviction", "gone")
        assert event["message"] == "Marking for deletion Pod default/gone"
        await node.gone("stays", gracePeriodSeconds="0")
        await node.until_gone("gone")
        assert (await node.get(PODS))["items"] == []


# --- priority -------------------------------------------------------------------------------------------------------

CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"


def priority_class(name: str, value: int, **fields: Any) -> Json:
    return {"metadata": {"name": name}, "value": value, **fields}


async def test_a_more_important_pod_gets_the_device_of_a_lesser_one(root: Path) -> None:
    async with running_node(root) as node, gophers(node, "a"):
        answer = await caller(node)("POST", CLASSES, priority_class("high", 1000))
        assert (answer.status, answer.warnings) == (201, [])
        await node.create(sleeper("low", limits={RESOURCE: 1}))
        await node.pod_in("low", "Running")
        await node.create(sleeper("high", limits={RESOURCE: 1}, priorityClassName="high"))
        running = await node.pod_in("high", "Running")
        assert running["spec"]["priority"] == 1000
        assert (await node.event("Preempted", "low"))["message"].endswith(" on node n1")
        await node.gone("high")


async def test_a_default_class_counts_for_pods_that_name_none(root: Path) -> None:
    async with running_node(root) as node:
        polite = priority_class("polite", 7, globalDefault=True, preemptionPolicy="Never")
        assert (await caller(node)("POST", CLASSES, polite)).status == 201
        spec = (await node.create(sleeper("p", nodeSelector={"no": "such"})))["spec"]
        assert (spec["priority"], spec["priorityClassName"], spec["preemptionPolicy"]) == (7, "polite", "Never")


async def test_the_built_in_classes_are_there_and_reserved(root: Path) -> None:
    async with running_node(root) as node:
        found = {each["metadata"]["name"]: each["value"] for each in (await node.get(CLASSES))["items"]}
        assert found == {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
        for wrong in (priority_class("system-mine", 5), priority_class("mine", 2_000_000_000)):
            assert (await caller(node)("POST", CLASSES, wrong)).status == 422
    async with running_node(root) as node:
        assert len((await node.get(CLASSES))["items"]) == 2


async def test_the_labels_of_namespaces_count_for_affinity(root: Path) -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    }
    web = sleeper("web")
    web["metadata"]["labels"] = {"app": "web"}
    async with running_node(root) as node:
        lab: Json = {"metadata": {"name": "lab"}}
        assert (await caller(node)("POST", "/api/v1/namespaces", lab)).status == 201
        assert (await caller(node)("POST", "/api/v1/namespaces/lab/pods", web)).status == 201
        await node.create(sleeper("near", affinity={"podAffinity": {required: [term]}}))
        event = await node.event("FailedScheduling", "near")
        assert "1 node(s) didn't match pod affinity rules." in event["message"]
        label = {"metadata": {"labels": {"team": "a"}}}
        assert (await caller(node)("PATCH", "/api/v1/namespaces/lab", label, kind=MERGE)).status == 200
        await node.pod_in("near", "Running")
        await node.gone("near")
        assert (await caller(node)("DELETE", "/api/v1/namespaces/lab/pods/web", gracePeriodSeconds="0")).status == 200
        await node.until("/api/v1/namespaces/lab/pods", lambda kind, _: kind == "DELETED")


async def test_the_node_renews_its_lease(root: Path) -> None:
    clock = LeapingClock()
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    async with running_node(root, clock) as node:
        first = await node.until(leases, lambda _, lease: name_of(lease) == "n1")
        assert (first["spec"]["holderIdentity"], first["spec"]["leaseDurationSeconds"]) == ("n1", 40)
        clock.leap(10)
        await node.until(leases, lambda _, lease: lease["spec"]["renewTime"] > first["spec"]["renewTime"])
