"""The calls of Helm and of k9s, which have no package that tests could install: played in their order.

Source: Helm 3 ``pkg/kube/client.go``, ``pkg/storage/driver/secrets.go``; k9s ``internal/client``, ``internal/dao``.
"""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from tests.contract.rigs.api_calls import STRATEGIC, ApiCaller, Json
from tests.contract.rigs.node_run import DEADLINE_S, PODS, Node, running_node

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
CONFIGS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SECRETS = "/api/v1/namespaces/default/secrets"
TABLES = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


def release(revision: int, state: str) -> Json:
    """The secret in which Helm keeps a revision of a release."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "helm.sh/release.v1",
        "metadata": {
            "name": f"sh.helm.release.v1.web.v{revision}",
            "labels": {"name": "web", "owner": "helm", "status": state, "version": str(revision)},
        },
        "data": {"release": base64.b64encode(b"H4sI" * 100).decode()},
    }


def deployment(replicas: int) -> Json:
    labels = {"app.kubernetes.io/instance": "web", "app.kubernetes.io/managed-by": "Helm"}
    pod: Json = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "none", "command": ["sleep", "1000"]}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": labels, "annotations": {"meta.helm.sh/release-name": "web"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app.kubernetes.io/instance": "web"}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


async def available(node: Node, replicas: int) -> None:
    """Watch until the Deployment has its pods, as Helm does with ``--wait``."""
    await node.until(DEPLOYMENTS, lambda _, value: value["status"].get("availableReplicas") == replicas)


async def ended(node: Node, path: str, since: str, count: int) -> None:
    """Watch until so many objects have ended after the version ``since``."""

    def look() -> None:
        with node.client.watch(path, {"resourceVersion": since}) as events:
            for _ in range(count):
                next(event for event in events if event.type == "DELETED")

    async with asyncio.timeout(DEADLINE_S):
        await asyncio.to_thread(look)


async def test_helm_installs_upgrades_and_removes_a_release(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        assert (await ask("GET", "/version"))[1]["major"] == "1"
        assert (await ask("GET", "/apis", accept=AGGREGATED))[1]["kind"] == "APIGroupDiscoveryList"
        assert (await ask("GET", SECRETS, labelSelector="name=web,owner=helm"))[1]["items"] == []
        assert (await ask("GET", f"{DEPLOYMENTS}/web"))[0] == 404
        assert (await ask("POST", SECRETS, release(1, "pending-install")))[0] == 201
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"mode": "a"}}
        for base, value in ((CONFIGS, config), (DEPLOYMENTS, deployment(1))):
            assert (await ask("POST", base, value, fieldManager="helm"))[0] == 201
        await available(node, 1)
        assert (await ask("PUT", f"{SECRETS}/sh.helm.release.v1.web.v1", release(1, "deployed")))[0] == 200

        assert (await ask("POST", SECRETS, release(2, "pending-upgrade")))[0] == 201
        status, changed, _ = await ask(
            "PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 2}}, kind=STRATEGIC, fieldManager="helm"
        )
        assert (status, changed["spec"]["replicas"], changed["metadata"]["generation"]) == (200, 2, 2)
        await available(node, 2)
        for revision, state in ((1, "superseded"), (2, "deployed")):
            name = f"sh.helm.release.v1.web.v{revision}"
            assert (await ask("PUT", f"{SECRETS}/{name}", release(revision, state)))[0] == 200
        found = (await ask("GET", SECRETS, labelSelector="name=web,owner=helm,status=deployed"))[1]["items"]
        assert [each["metadata"]["labels"]["version"] for each in found] == ["2"]

        since = (await ask("GET", PODS))[1]["metadata"]["resourceVersion"]
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        for path in (
            f"{DEPLOYMENTS}/web",
            f"{CONFIGS}/web",
            *(f"{SECRETS}/sh.helm.release.v1.web.v{n}" for n in (1, 2)),
        ):
            assert (await ask("DELETE", path, options))[0] == 200
        await ended(node, PODS, since, 2)
        assert (await ask("GET", REPLICA_SETS))[1]["items"] == []


async def test_k9s_looks_at_the_node_and_its_pods(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        for group, resource in (("", "namespaces"), ("", "pods"), ("", "nodes"), ("apps", "deployments")):
            for verb in ("list", "watch"):
                wanted: dict[str, Any] = {"group": group, "resource": resource, "verb": verb, "namespace": ""}
                review = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": wanted}}
                status, answer, _ = await ask("POST", REVIEWS, review | {"apiVersion": "authorization.k8s.io/v1"})
                assert (status, answer["status"]["allowed"]) == (201, True)
        groups = (await ask("GET", "/apis", accept=AGGREGATED))[1]["items"]
        assert {"apps", "batch", "apiextensions.k8s.io"} <= {each["metadata"]["name"] for each in groups}
        assert (await ask("GET", "/apis/metrics.k8s.io/v1beta1"))[0] == 404
        spec = deployment(1)["spec"]["template"]["spec"]
        await node.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
        await node.pod_in("p", "Running")

        shown = (await ask("GET", "/api/v1/pods", accept=TABLES, includeObject="Object"))[1]
        assert shown["kind"] == "Table"
        assert [row["object"]["kind"] for row in shown["rows"]] == ["Pod"]
        for path in ("/api/v1/namespaces", "/api/v1/nodes", "/api/v1/pods", "/apis/apps/v1/deployments"):
            listed = (await ask("GET", path, limit="500", resourceVersion="0"))[1]
            followed = await ask(
                "GET",
                path,
                allowWatchBookmarks="true",
                resourceVersion=listed["metadata"]["resourceVersion"],
                timeoutSeconds="1",
                watch="true",
            )
            assert followed.status == 200
        log = await ask("GET", f"{PODS}/p/log", container="main", tailLines="100", timestamps="true", follow="false")
        assert log.status == 200
        events = await ask("GET", "/api/v1/namespaces/default/events", fieldSelector="involvedObject.name=p")
        assert {"Scheduled", "Started"} <= {each["reason"] for each in events.value["items"]}
        since = (await ask("GET", PODS))[1]["metadata"]["resourceVersion"]
        options = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
        assert (await ask("DELETE", f"{PODS}/p", options))[0] == 200
        await ended(node, PODS, since, 1)
