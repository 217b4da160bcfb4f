"""The API of our own node as a pod with a service account has it."""

from __future__ import annotations

import base64
import json
import shutil
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from ssl import create_default_context
from typing import Any

import yaml

from plugbay.ops.cluster import ClusterApi


def cluster_of(kubeconfig: Path, directory: Path) -> ClusterApi:
    """The cluster of a kubeconfig; ``directory`` becomes that of the service account."""
    content = yaml.safe_load(kubeconfig.read_text())
    [cluster], [user] = content["clusters"], content["users"]
    (directory / "ca.crt").write_bytes(base64.b64decode(cluster["cluster"]["certificate-authority-data"]))
    (directory / "token").write_text(user["user"]["token"])
    return ClusterApi(cluster["cluster"]["server"], directory)


def only_node(cluster: ClusterApi) -> str:
    """The name of the only node. Blocks."""
    [node] = cluster.send("GET", "api", "v1", "nodes").content["items"]
    return str(node["metadata"]["name"])


def account_of(cluster: ClusterApi, objects: Iterable[Mapping[str, Any]], directory: Path) -> ClusterApi:
    """Create the account, role and binding among ``objects``; the cluster as that account has it. Blocks."""
    account = next(each["metadata"] for each in objects if each["kind"] == "ServiceAccount")
    accounts = ("api", "v1", "namespaces", account["namespace"], "serviceaccounts")
    paths = {
        "ServiceAccount": accounts,
        "ClusterRole": ("apis", "rbac.authorization.k8s.io", "v1", "clusterroles"),
        "ClusterRoleBinding": ("apis", "rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
    }
    for each in objects:
        if each["kind"] in paths:
            assert cluster.send("POST", *paths[each["kind"]], body=each).status == 201
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    made = cluster.send("POST", *accounts, account["name"], "token", body=wanted)
    directory.mkdir()
    (directory / "token").write_text(made.content["status"]["token"])
    shutil.copy(cluster.authority, directory / "ca.crt")
    return ClusterApi(cluster.url, directory)


def label_node(cluster: ClusterApi, name: str, labels: dict[str, str | None]) -> None:
    """Set labels of a node, or remove those without a value. Blocks."""
    headers = {"Authorization": f"Bearer {cluster.token()}", "Content-Type": "application/merge-patch+json"}
    body = json.dumps({"metadata": {"labels": labels}}).encode()
    request = urllib.request.Request(f"{cluster.url}/api/v1/nodes/{name}", body, headers, method="PATCH")
    with urllib.request.urlopen(request, context=create_default_context(cafile=cluster.authority)) as answer:
        assert answer.status == 200
