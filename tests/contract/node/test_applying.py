"""Server-side apply over HTTP: who owns which field, of pods and of stored objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract.rigs.api_calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, ApiCaller, Json
from tests.contract.rigs.node_run import running_node

CONFIG = "/api/v1/namespaces/default/configmaps/c"
POD = "/api/v1/namespaces/default/pods/p"
SECRETS = "/api/v1/namespaces/default/secrets"


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


def config(data: Json, **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}, "data": data}


def pod(image: str = "i", **labels: str) -> Json:
    """A pod that finds no place, so that nothing of it runs."""
    container = {"name": "main", "image": image, "resources": {"limits": {"example.com/gopher": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": labels},
        "spec": {"containers": [container]},
    }


def managers(value: Json) -> list[tuple[str, str]]:
    return [(each["manager"], each["operation"]) for each in value["metadata"].get("managedFields", [])]


async def test_a_configuration_makes_and_changes_an_object(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        status, made, _ = await ask("PATCH", CONFIG, config({"a": "1", "b": "2"}), kind=APPLY, fieldManager="me")
        assert (status, made["data"], managers(made)) == (201, {"a": "1", "b": "2"}, [("me", "Apply")])
        status, same, _ = await ask("PATCH", CONFIG, config({"a": "1", "b": "2"}), kind=APPLY, fieldManager="me")
        assert (status, same) == (200, made), "nothing changes, the resource version neither"
        text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  b: '3'  # for a test\n"
        status, less, _ = await ask("PATCH", CONFIG, text, kind=APPLY, fieldManager="me")
        assert (status, less["data"], less["metadata"]["uid"]) == (200, {"b": "3"}, made["metadata"]["uid"])
        assert int(less["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_what_others_own_is_a_conflict_unless_forced(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("PATCH", CONFIG, config({"a": "1", "b": "2"}), kind=APPLY, fieldManager="me")
        status, refusal, _ = await ask("PATCH", CONFIG, config({"a": "2"}), kind=APPLY, fieldManager="you")
        assert (status, refusal["reason"]) == (409, "Conflict")
        assert refusal["message"] == 'Apply failed with 1 conflict: conflict with "me": .data.a'
        assert refusal["details"]["causes"] == [
            {"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".data.a"}
        ]
        tried = await ask(
            "PATCH", CONFIG, config({"a": "2"}), kind=APPLY, fieldManager="you", force="true", dryRun="All"
        )
        assert (tried.status, tried.value["data"]) == (200, {"a": "2", "b": "2"})
        assert (await ask("GET", CONFIG))[1]["data"] == {"a": "1", "b": "2"}
        _, forced, _ = await ask("PATCH", CONFIG, config({"a": "2"}), kind=APPLY, fieldManager="you", force="true")
        assert (forced["data"], managers(forced)) == ({"a": "2", "b": "2"}, [("me", "Apply"), ("you", "Apply")])
        _, left, _ = await ask("PATCH", CONFIG, config({}), kind=APPLY, fieldManager="me")
        assert left["data"] == {"a": "2"}, "what is not applied any more goes, but for what another owns"


async def test_every_write_is_tracked_for_its_client(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        _, made, _ = await ask("POST", SECRETS, {"metadata": {"name": "s"}, "data": {"a": "MQ=="}}, fieldManager="one")
        assert managers(made) == [("one", "Update")]
        _, again, _ = await ask("PUT", f"{SECRETS}/s", made | {"data": {"a": "MQ==", "b": "MQ=="}}, fieldManager="two")
        assert sorted(managers(again)) == [("one", "Update"), ("two", "Update")]
        _, third, _ = await ask("PATCH", f"{SECRETS}/s", {"data": {"a": "Mg=="}}, kind=MERGE, fieldManager="three")
        fields = {each["manager"]: each["fieldsV1"].get("f:data") for each in third["metadata"]["managedFields"]}
        assert fields == {"one": {}, "two": {"f:b": {}}, "three": {"f:a": {}}}
        _, bare, _ = await ask("PATCH", f"{SECRETS}/s", {"metadata": {"managedFields": []}}, kind=MERGE)
        assert managers(bare) == []
        _, kept, _ = await ask("PATCH", f"{SECRETS}/s", {"data": {"a": "MQ=="}}, kind=STRATEGIC, fieldManager="one")
        assert managers(kept) == [], "after they were forgotten, managers come back with the first apply"


async def test_kubectl_moves_what_it_applied_without_the_server(root: Path) -> None:
    """The JSON patch that it sends first: managers renamed, for one resource version."""
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        path, body = CONFIG.removesuffix("/c"), config({"a": "1"})
        made = (await ask("POST", path, body, fieldManager="kubectl-client-side-apply"))[1]
        moved = [{**made["metadata"]["managedFields"][0], "manager": "kubectl", "operation": "Apply"}]
        patch = [
            {"op": "replace", "path": "/metadata/managedFields", "value": moved},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]},
        ]
        status, now, _ = await ask("PATCH", CONFIG, patch, kind=JSON_PATCH, fieldManager="kubectl")
        assert (status, managers(now)) == (200, [("kubectl", "Apply")])
        assert (await ask("PATCH", CONFIG, patch, kind=JSON_PATCH, fieldManager="kubectl")).status == 409
        _, changed, _ = await ask("PATCH", CONFIG, config({"b": "2"}), kind=APPLY, fieldManager="kubectl")
        assert changed["data"] == {"b": "2"}


async def test_pods_are_applied(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        status, made, _ = await ask("PATCH", POD, pod(app="x"), kind=APPLY, fieldManager="me")
        assert (status, managers(made)) == (201, [("me", "Apply")])
        assert made["spec"]["restartPolicy"] == "Always", "with defaults, which are nobody's"
        [entry] = made["metadata"]["managedFields"]
        assert entry["fieldsV1"]["f:metadata"] == {"f:labels": {"f:app": {}}}
        status, same, _ = await ask("PATCH", POD, pod(app="x"), kind=APPLY, fieldManager="me")
        assert (status, same["metadata"]["managedFields"]) == (200, made["metadata"]["managedFields"])
        other = pod(app="x")
        other["spec"]["containers"][0]["command"] = ["other"]
        status, refused, _ = await ask("PATCH", POD, other, kind=APPLY, fieldManager="me")
        assert (status, refused["reason"]) == (422, "Invalid")
        assert "command" in refused["message"]
        labels = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"tier": "t"}}}
        _, both, _ = await ask("PATCH", POD, labels, kind=APPLY, fieldManager="you")
        assert both["metadata"]["labels"] == {"app": "x", "tier": "t"}
        refusal = await ask("PATCH", POD, pod(app="x", tier="u"), kind=APPLY, fieldManager="me")
        assert refusal.value["message"] == 'Apply failed with 1 conflict: conflict with "you": .metadata.labels.tier'
        _, fewer, _ = await ask("PATCH", POD, pod(), kind=APPLY, fieldManager="me")
        assert fewer["metadata"]["labels"] == {"tier": "t"}
        patched = await ask("PATCH", POD, {"metadata": {"labels": {"tier": "v"}}}, kind=MERGE, fieldManager="label")
        assert managers(patched.value) == [("me", "Apply"), ("label", "Update")]
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        found = (await ask("GET", POD))[1]
        assert found["metadata"]["managedFields"] == patched.value["metadata"]["managedFields"], "the store has them"


async def test_a_created_pod_belongs_to_whoever_created_it(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        path = POD.removesuffix("/p")
        made = (await ask("POST", path, pod(app="x"), fieldManager="kubectl-create"))[1]
        [entry] = made["metadata"]["managedFields"]
        assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("kubectl-create", "Update", "v1")
        assert entry["fieldsV1"]["f:spec"]["f:containers"] == {
            'k:{"name":"main"}': {
                ".": {},
                "f:image": {},
                "f:imagePullPolicy": {},
                "f:name": {},
                "f:resources": {
                    ".": {},
                    "f:limits": {".": {}, "f:example.com/gopher": {}},
                    "f:requests": {".": {}, "f:example.com/gopher": {}},
                },
                "f:terminationMessagePath": {},
                "f:terminationMessagePolicy": {},
            }
        }
        assert entry["fieldsV1"]["f:spec"].keys() == {
            *("f:containers", "f:dnsPolicy", "f:enableServiceLinks", "f:restartPolicy", "f:schedulerName"),
            *("f:securityContext", "f:terminationGracePeriodSeconds"),
        }, "with the defaults, and without what admission adds"
        tried = await ask("POST", path, pod() | {"metadata": {"name": "q"}}, fieldManager="x", dryRun="All")
        assert managers(tried.value) == [("x", "Update")]
        refusal = await ask("PATCH", POD, pod(app="y"), kind=APPLY, fieldManager="me")
        assert refusal.value["message"] == (
            'Apply failed with 1 conflict: conflict with "kubectl-create" using v1: .metadata.labels.app'
        )


@pytest.mark.parametrize(
    ("query", "body", "status", "message"),
    [
        ({}, config({}), 422, 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required'),
        ({"fieldManager": "x"}, config({}) | {"kind": "Pod"}, 400, "invalid object type: /v1, Kind=Pod"),
        ({"fieldManager": "x"}, config({}, name="d"), 400, "the name of the object (d) does not match the name on the"),
        ({"fieldManager": "x"}, config({}, managedFields=[{}]), 400, "metadata.managedFields must be nil"),
        (
            {"fieldManager": "x"},
            config({}, uid="1"),
            409,
            'Operation cannot be fulfilled on configmaps "c": uid mismatch',
        ),
        (
            {"fieldManager": "x"},
            config({}) | {"spec": {}},
            400,
            "failed to create typed patch object (default/c; /v1, Kind=ConfigMap): .spec: field not declared in schema",
        ),
        (
            {"fieldManager": "x"},
            config({}, finalizers=["a/b", "a/b"]),
            400,
            "failed to create typed patch object (default/c; /v1, Kind=ConfigMap): .metadata.finalizers: duplicate",
        ),
        ({"fieldManager": "x"}, b"a: [", 400, "error decoding patch"),
    ],
)
async def test_what_cannot_be_applied_is_told(root: Path, query: Json, body: Any, status: int, message: str) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        answer = await ask("PATCH", CONFIG, body, kind=APPLY, **query)
        assert answer.status == status
        assert answer.value["message"].startswith(message)
        assert (await ask("GET", CONFIG)).status == 404


async def test_conditions_of_a_pod_are_owned_as_its_status(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("PATCH", POD, pod(app="x"), kind=APPLY, fieldManager="me")

        def condition(status: str) -> Json:
            return {"status": {"conditions": [{"type": "example.com/fed", "status": status}]}}

        _, fed, _ = await ask("PATCH", f"{POD}/status", condition("True"), kind=STRATEGIC, fieldManager="feeder")
        entry = fed["metadata"]["managedFields"][-1]
        assert (entry["manager"], entry["operation"], entry["subresource"]) == ("feeder", "Update", "status")
        of_condition: Json = {".": {}, "f:type": {}, "f:status": {}}
        fields = entry["fieldsV1"]["f:status"]["f:conditions"]['k:{"type":"example.com/fed"}']
        assert {name: each for name, each in fields.items() if name in of_condition} == of_condition
        config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **condition("False")}
        refusal = await ask("PATCH", f"{POD}/status", config, kind=APPLY, fieldManager="other")
        assert refusal.value["message"].startswith(
            'Apply failed with 1 conflict: conflict with "feeder" with subresource "status" using v1: '
            '.status.conditions[type="example.com/fed"].status'
        )
        _, taken, _ = await ask(
            "PATCH", f"{POD}/status", config, kind=APPLY, fieldManager="other", force="true", fieldValidation="Strict"
        )
        mine = [each for each in taken["status"]["conditions"] if each["type"] == "example.com/fed"]
        assert mine[0]["status"] == "False"
        assert ("other", "Apply") in managers(taken)
        again = await ask("PATCH", f"{POD}/status", config, kind=APPLY, fieldManager="other")
        assert again.value["metadata"]["resourceVersion"] == taken["metadata"]["resourceVersion"]


async def test_the_node_is_applied(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        [found] = (await ask("GET", "/api/v1/nodes"))[1]["items"]
        name, path = found["metadata"]["name"], f"/api/v1/nodes/{found['metadata']['name']}"

        def labels(**wanted: str) -> Json:
            return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": wanted}}

        status, made, _ = await ask("PATCH", path, labels(disk="ssd"), kind=APPLY, fieldManager="me")
        assert (status, made["metadata"]["labels"]["disk"]) == (200, "ssd")
        assert managers(made) == [("me", "Apply"), ("kubelet", "Update")]
        same = (await ask("PATCH", path, labels(disk="ssd"), kind=APPLY, fieldManager="me"))[1]
        assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        refusal = await ask("PATCH", path, labels(disk="hdd"), kind=APPLY, fieldManager="you")
        assert refusal.value["message"] == 'Apply failed with 1 conflict: conflict with "me": .metadata.labels.disk'
        taint = {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
        _, tainted, _ = await ask("PATCH", path, taint, kind=STRATEGIC, fieldManager="kubectl-taint")
        assert ("kubectl-taint", "Update") in managers(tainted)
        _, bare, _ = await ask("PATCH", path, labels(), kind=APPLY, fieldManager="me")
        assert "disk" not in bare["metadata"]["labels"]
        assert bare["metadata"]["labels"].keys() == found["metadata"]["labels"].keys()
        extended = {"status": {"capacity": {"example.com/dongle": "1"}}}
        _, amount, _ = await ask("PATCH", f"{path}/status", extended, kind=MERGE, fieldManager="dongles")
        [entry] = [each for each in amount["metadata"]["managedFields"] if each["manager"] == "dongles"]
        assert (entry["subresource"], entry["fieldsV1"]["f:status"]["f:capacity"]) == (
            "status", {"f:example.com/dongle": {}},
        )  # fmt: skip
        kept = amount["metadata"]["managedFields"]
    async with running_node(root) as node:
        again = (await ApiCaller(node.config.control_socket)("GET", path))[1]
        assert again["metadata"]["managedFields"] == kept


async def test_replicas_that_were_scaled_are_a_conflict(root: Path) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments/d"
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, **pod()}}
    wanted = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 0, **spec}}
    for part in ("apiVersion", "kind"):
        del spec["template"][part]
    spec["template"]["metadata"] = {"labels": {"a": "b"}}
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        assert (await ask("PATCH", path, wanted, kind=APPLY, fieldManager="me")).status == 201
        scaled = await ask("PATCH", f"{path}/scale", {"spec": {"replicas": 1}}, kind=MERGE, fieldManager="kubectl")
        assert scaled.status == 200
        refusal = await ask("PATCH", path, wanted, kind=APPLY, fieldManager="me")
        assert refusal.value["message"] == (
            'Apply failed with 1 conflict: conflict with "kubectl" with subresource "scale" using apps/v1: '
            ".spec.replicas"
        )
        for listed in ("/apis/apps/v1/replicasets", "/api/v1/pods"):
            made = await node.until(listed, lambda change, value: change == "ADDED")
            assert managers(made)[0] == ("kube-controller-manager", "Update")
        await ask("DELETE", path)


async def test_a_value_of_another_type_is_told_before_what_it_would_take(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        labels = {"app": "x"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        value = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
        path = "/apis/apps/v1/namespaces/default/deployments"
        assert (await ask("POST", path, value, fieldManager="one")).status == 201
        refused = await ask(
            "PATCH", f"{path}/d", value | {"spec": spec | {"replicas": "two"}}, kind=APPLY, fieldManager="two"
        )
        assert (refused.status, "of type int64" in refused.value["message"]) == (400, True)
        assert (await ask("POST", POD.removesuffix("/p"), pod(), fieldManager="one")).status == 201
        odd = pod() | {"spec": {"terminationGracePeriodSeconds": "two"}}
        refused = await ask("PATCH", POD, odd, kind=APPLY, fieldManager="two")
        assert (refused.status, "of type int64" in refused.value["message"]) == (400, True)
