"""Deployments, DaemonSets, Jobs and the garbage of their pods, as a client of a node's API sees them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from plugbay.node.config import NodeConfig
from tests.contract.rigs.api_calls import MERGE, STRATEGIC, TABLE, ApiCaller, Json
from tests.contract.rigs.node_run import Node, name_of, running_node

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

APPS = "/apis/apps/v1/namespaces/default"
DEPLOYMENTS = f"{APPS}/deployments"
SETS = f"{APPS}/replicasets"
DAEMONS = f"{APPS}/daemonsets"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
SLEEP = ["sleep", "1000"]
APPLY = "application/apply-patch+yaml"
UNDO = "application/json-patch+json"


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


@asynccontextmanager
async def cluster(root: Path) -> AsyncIterator[tuple[Node, ApiCaller]]:
    """A node; at the end nothing is left of what the block had made."""
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        try:
            yield node, ask
        finally:
            await cleared(node, ask)


async def cleared(node: Node, ask: ApiCaller) -> None:
    for path in (DEPLOYMENTS, DAEMONS, SETS, JOBS):
        await ask("DELETE", path, {"propagationPolicy": "Background"})
    for each in (await ask("GET", PODS)).value["items"]:
        await ask("DELETE", f"{PODS}/{name_of(each)}", gracePeriodSeconds="0")
        await node.until_gone(name_of(each))


def template(*command: str, policy: str = "", **container: Any) -> Json:
    made = {"name": "c", "command": list(command), **container}
    spec: Json = {"containers": [made], "terminationGracePeriodSeconds": 0}
    return {"metadata": {"labels": {"app": "a"}}, "spec": spec | ({"restartPolicy": policy} if policy else {})}


def deployment(replicas: int, pod: Json | None = None, **spec: Any) -> Json:
    selector = {"matchLabels": {"app": "a"}}
    spec = {"replicas": replicas, "selector": selector, "template": pod or template(*SLEEP), **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def job(*command: str, **spec: Any) -> Json:
    spec = {"template": template(*command, policy="Never"), **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}


def is_rolled_out(value: Any) -> bool:
    """As ``kubectl rollout status`` decides it."""
    status, wanted = value.get("status", {}), value["spec"]["replicas"]
    counts = [status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas")]
    return status.get("observedGeneration", 0) >= value["metadata"]["generation"] and counts == [wanted] * 3


async def rolled_out(node: Node) -> Any:
    return await node.until(DEPLOYMENTS, lambda _, value: is_rolled_out(value))


def state(value: Any) -> dict[str, str]:
    return {each["type"]: each["status"] for each in value.get("status", {}).get("conditions", [])}


async def test_a_deployment_is_rolled_out_back_and_scaled(root: Path) -> None:
    async with cluster(root) as (node, ask):
        assert (await ask("POST", DEPLOYMENTS, deployment(2))).status == 201
        first = await rolled_out(node)
        assert first["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}
        assert first["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": "25%"}
        [made] = (await ask("GET", SETS)).value["items"]
        written = {(each["manager"], each.get("subresource")) for each in made["metadata"]["managedFields"]}
        assert written >= {("kube-controller-manager", None), ("kube-controller-manager", "status")}
        pods = (await ask("GET", PODS, labelSelector="app=a")).value["items"]
        assert {each["metadata"]["ownerReferences"][0]["uid"] for each in pods} == {made["metadata"]["uid"]}
        change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]}}}}
        assert (await ask("PATCH", f"{DEPLOYMENTS}/d", change, kind=STRATEGIC)).status == 200
        second = await rolled_out(node)
        assert second["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "2"}
        old = made["spec"]["template"]
        old["metadata"] = {"creationTimestamp": None, "labels": {"app": "a"}}
        undo = [{"op": "replace", "path": "/spec/template", "value": old}]
        assert (await ask("PATCH", f"{DEPLOYMENTS}/d", undo, kind=UNDO)).status == 200
        third = await rolled_out(node)
        assert third["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "3"}
        assert {each["spec"]["replicas"] for each in (await ask("GET", SETS)).value["items"]} == {0, 2}
        scale = (await ask("GET", f"{DEPLOYMENTS}/d/scale")).value
        assert (scale["kind"], scale["spec"], scale["status"]) == (
            "Scale",
            {"replicas": 2},
            {"replicas": 2, "selector": "app=a"},
        )
        answer = await ask("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}}, kind=MERGE)
        assert answer.value["spec"] == {"replicas": 3}
        applied = deployment(4)
        conflict = await ask("PATCH", f"{DEPLOYMENTS}/d", applied, kind=APPLY, fieldManager="other")
        assert (conflict.status, conflict.value["reason"]) == (409, "Conflict"), "the number is the scaling client's"
        assert ".spec.replicas" in conflict.value["message"]
        await rolled_out(node)
        assert (await ask("PUT", f"{DEPLOYMENTS}/d/scale", scale)).status == 409, "it has been changed since"
        shown = (await ask("GET", DEPLOYMENTS, accept=TABLE)).value
        assert [each["name"] for each in shown["columnDefinitions"]][:4] == ["Name", "Ready", "Up-to-date", "Available"]
        assert shown["rows"][0]["cells"][:4] == ["d", "3/3", 3, 3]
        told = await node.until("/api/v1/events", lambda _, each: each["involvedObject"]["kind"] == "Deployment")
        assert (told["reason"], told["source"]["component"]) == ("ScalingReplicaSet", "deployment-controller")
        assert told["involvedObject"]["apiVersion"] == "apps/v1"


async def test_what_a_deployment_owns_goes_with_it_or_stays(root: Path) -> None:
    async with cluster(root) as (node, ask):
        await ask("POST", DEPLOYMENTS, deployment(2))
        await rolled_out(node)
        await ask("DELETE", f"{DEPLOYMENTS}/d", propagationPolicy="Orphan")
        await node.until_gone("d", DEPLOYMENTS)
        [orphan] = (await ask("GET", SETS)).value["items"]
        assert "ownerReferences" not in orphan["metadata"]
        await ask("POST", DEPLOYMENTS, deployment(2))
        await rolled_out(node)
        [adopted] = (await ask("GET", SETS)).value["items"]
        assert adopted["metadata"]["uid"] == orphan["metadata"]["uid"]
        answer = (await ask("DELETE", f"{DEPLOYMENTS}/d", {"propagationPolicy": "Foreground"})).value
        assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]
        await node.until_gone("d", DEPLOYMENTS)
        assert (await ask("GET", SETS)).value["items"] == []
        assert (await ask("GET", PODS)).value["items"] == []
        await ask("POST", DEPLOYMENTS, deployment(1))
        await rolled_out(node)
        [pod] = (await ask("GET", PODS)).value["items"]
        await ask("DELETE", f"{DEPLOYMENTS}/d")
        await node.until_gone(name_of(pod))
        assert (await ask("GET", SETS)).value["items"] == []


async def test_a_job_completes_is_counted_and_cleaned_up(root: Path) -> None:
    async with cluster(root) as (node, ask):
        indexed = job("sh", "-c", "echo $JOB_COMPLETION_INDEX", completions=3, parallelism=2, completionMode="Indexed")
        assert (await ask("POST", JOBS, indexed)).status == 201
        done = await node.until(JOBS, lambda _, value: state(value).get("Complete") == "True")
        assert (done["status"]["succeeded"], done["status"]["completedIndexes"]) == (3, "0-2")
        assert state(done) == {"SuccessCriteriaMet": "True", "Complete": "True"}
        pods = (await ask("GET", PODS, labelSelector="batch.kubernetes.io/job-name=j")).value["items"]
        logs = [await node.log(name_of(each)) for each in pods]
        assert sorted(logs) == [b"0\n", b"1\n", b"2\n"]
        assert all("finalizers" not in each["metadata"] for each in pods)
        await ask("DELETE", f"{JOBS}/j", propagationPolicy="Foreground")
        await node.until_gone("j", JOBS)
        assert (await ask("GET", PODS)).value["items"] == []
        await ask("POST", JOBS, job("false", backoffLimit=0))
        failed = await node.until(JOBS, lambda _, value: state(value).get("Failed") == "True")
        assert failed["status"]["conditions"][-1]["reason"] == "BackoffLimitExceeded"
        await ask("DELETE", f"{JOBS}/j", propagationPolicy="Background")
        await ask("POST", JOBS, job("true", ttlSecondsAfterFinished=0))
        await node.until(JOBS, lambda change, value: change == "DELETED" and state(value).get("Complete") == "True")


async def test_a_daemon_set_has_its_pod_and_its_history(root: Path) -> None:
    async with cluster(root) as (node, ask):
        spec: Json = {"selector": {"matchLabels": {"app": "a"}}, "template": template(*SLEEP)}
        wanted = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": spec}
        assert (await ask("POST", DAEMONS, wanted)).status == 201
        await node.until(DAEMONS, lambda _, value: value.get("status", {}).get("numberAvailable") == 1)
        change = {"spec": {"template": {"metadata": {"annotations": {"again": "1"}}}}}
        await ask("PATCH", f"{DAEMONS}/d", change, kind=STRATEGIC)

        def is_updated(_: str, value: Any) -> bool:
            status = value.get("status", {})
            counts = status.get("updatedNumberScheduled"), status.get("numberAvailable")
            return counts == (1, 1) and status["observedGeneration"] == value["metadata"]["generation"]

        await node.until(DAEMONS, is_updated)
        revisions = (await ask("GET", f"{APPS}/controllerrevisions")).value["items"]
        first = next(each for each in revisions if each["revision"] == 1)
        await ask("PATCH", f"{DAEMONS}/d", first["data"], kind=STRATEGIC)
        await node.until(
            f"{APPS}/controllerrevisions",
            lambda _, value: (value["metadata"]["name"], value["revision"]) == (first["metadata"]["name"], 3),
        )
        [row] = (await ask("GET", DAEMONS, accept=TABLE)).value["rows"]
        assert row["cells"][:2] == ["d", 1]


async def test_a_plugin_in_a_daemon_set_offers_devices_to_the_pods_of_a_deployment(root: Path) -> None:
    """The shape of the manifests that device plugins bring along; its kubelet's directory is this node's."""
    gophers = root / "gophers"
    gophers.mkdir()
    (gophers / "gil").touch()
    serve = ["serve", "directory", "--resource", "example.com/gopher", "--path", str(gophers), "--env", "GOPHER"]
    directory = str(root / "device-plugins")
    pod = template(
        *(sys.executable, "-m", "plugbay", *serve, "--root", str(root)),
        volumeMounts=[{"name": "kubelet", "mountPath": directory}],
    )
    pod["spec"] |= {
        "tolerations": [{"key": "example.com/gopher", "operator": "Exists", "effect": "NoSchedule"}],
        "priorityClassName": "system-node-critical",
        "volumes": [{"name": "kubelet", "hostPath": {"path": directory, "type": "Directory"}}],
    }
    spec: Json = {
        "selector": {"matchLabels": {"app": "a"}},
        "template": pod,
        "updateStrategy": {"type": "RollingUpdate"},
    }
    async with cluster(root) as (node, ask):
        daemon = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "plugin"}, "spec": spec}
        assert (await ask("POST", DAEMONS, daemon)).status == 201
        user = template("sh", "-c", "echo $GOPHER; exec sleep 1000", resources={"limits": {"example.com/gopher": 1}})
        labels = {"app": "user"}
        user["metadata"]["labels"] = labels
        await ask("POST", DEPLOYMENTS, deployment(1, user, selector={"matchLabels": labels}))
        await rolled_out(node)
        [made] = (await ask("GET", PODS, labelSelector="app=user")).value["items"]
        assert await node.first_words(name_of(made)) == b"gil\n"


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (DEPLOYMENTS, deployment(1, selector={"matchLabels": {"app": "b"}}), "spec.template.metadata.labels"),
        (DEPLOYMENTS, deployment(1, template(*SLEEP, policy="Never")), "spec.template.spec.restartPolicy"),
        (DEPLOYMENTS, deployment(-1), "spec.replicas"),
        (DEPLOYMENTS, deployment(1, strategy={"type": "Best"}), "spec.strategy.type"),
        (
            DEPLOYMENTS,
            deployment(1, template(*SLEEP, volumeMounts=[{"name": "v", "mountPath": "/v"}])),
            "spec.template.spec.containers[0].volumeMounts[0].name",
        ),
        (JOBS, job("true", completionMode="Indexed", parallelism=1), "spec.completions"),
        (JOBS, job("true", backoffLimitPerIndex=1), "spec.backoffLimitPerIndex"),
        (JOBS, job("true", template=template("true")), "spec.template.spec.restartPolicy"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("spec") else "",
)
async def test_what_cannot_work_is_refused_by_its_field(root: Path, path: str, value: Json, field: str) -> None:
    async with cluster(root) as (_, ask):
        answer = await ask("POST", path, value)
        assert (answer.status, [each["field"] for each in answer.value["details"]["causes"]]) == (422, [field])


async def test_a_selector_stays_and_other_controllers_are_unknown(root: Path) -> None:
    async with cluster(root) as (_, ask):
        await ask("POST", DEPLOYMENTS, deployment(0))
        other = {"spec": {"selector": {"matchLabels": {"app": "a", "b": "c"}}}}
        answer = await ask("PATCH", f"{DEPLOYMENTS}/d", other, kind=MERGE)
        assert (answer.status, "field is immutable" in answer.value["message"]) == (422, True)
        for unknown in (f"{APPS}/statefulsets", "/apis/batch/v1/namespaces/default/cronjobs"):
            assert (await ask("GET", unknown)).status == 404


@pytest.mark.timeout(180)
async def test_a_killed_node_makes_no_pod_twice(plugbay: Plugbay) -> None:
    """Each round kills the node at another moment while pods are being made; in the end there are as many as wanted."""
    ask = ApiCaller(plugbay.root / "plugbay.sock")
    most = 0
    for round_ in range(4):
        async with plugbay.node_up() as node:
            if round_ == 0:
                await ask("POST", DEPLOYMENTS, deployment(4))
                await ask("POST", JOBS, job("true", completions=6, parallelism=2))
            else:
                restart = {"spec": {"template": {"metadata": {"annotations": {"round": str(round_)}}}}}
                await ask("PATCH", f"{DEPLOYMENTS}/d", restart, kind=STRATEGIC)
            for _ in range(round_ + 1):
                pods = (await ask("GET", PODS, labelSelector="pod-template-hash")).value["items"]
                most = max(most, sum("deletionTimestamp" not in each["metadata"] for each in pods))
            node.kill()
            await node.wait()
    async with plugbay.node_up():
        there = Node(NodeConfig(plugbay.root))
        await rolled_out(there)
        pods = (await ask("GET", PODS, labelSelector="pod-template-hash")).value["items"]
        most = max(most, sum("deletionTimestamp" not in each["metadata"] for each in pods))
        finished = await there.until(JOBS, lambda _, value: state(value).get("Complete") == "True")
        assert most <= 5, "never more than the surge allows"
        assert finished["status"]["succeeded"] == 6
        await cleared(there, ask)
