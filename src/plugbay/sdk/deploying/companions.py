"""The objects beside a DaemonSet: its files, its right to read nodes, and what watches and guards it. Pure.

Names and namespaces are texts for a manifest, and expressions for a chart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugbay.sdk.deploying.daemonset import NAME_LABEL, Fields, metadata
from plugbay.sdk.deploying.noted_yaml import Noted

ENFORCED: Final = "pod-security.kubernetes.io/enforce"
"""The label of a namespace that says which Pod Security level its pods have to keep."""
_RBAC: Final = "rbac.authorization.k8s.io"
_API_PORTS: Final = (443, 6443)


def namespace(name: object, level: str) -> Fields:
    """The namespace, where pods of this Pod Security level are admitted."""
    why = f"Pods in it may be as {level} as plugins have to be."
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {ENFORCED: Noted(level, why)}},
    }


def config_map(name: object, namespace: object, data: object, labels: Mapping[str, object] | None = None) -> Fields:
    """A ConfigMap of the plugin."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, namespace, labels),
        "data": data,
    }


def node_reader(name: object, namespace: object, role: object, reason: str) -> list[Fields]:
    """A service account that may read nodes; the API server knows no right to read only one's own.

    Args:
        role: the name of the ClusterRole and its binding, which no deployment in another namespace may have. Unlike
            other names it may have colons.
    """
    account: Fields = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name, namespace)}
    of_cluster: Fields = {"name": role, "labels": {NAME_LABEL: name}}
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "watch"]}]
    allowed: Fields = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": of_cluster,
        "rules": Noted(rules, reason),
    }
    bound: Fields = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": of_cluster,
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    return [account, allowed, bound]


def pod_monitor(name: object, namespace: object, labels: Mapping[str, object] | None = None) -> Fields:
    """A PodMonitor: it has Prometheus read the metrics, where its operator runs."""
    node = {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": metadata(name, namespace, labels),
        "spec": {
            "selector": {"matchLabels": {NAME_LABEL: name}},
            "podMetricsEndpoints": [{"port": "metrics", "path": "/metrics", "relabelings": [node]}],
        },
    }


def network_policy(name: object, namespace: object, egress: object | None, port: object) -> Fields:
    """A policy that lets in readers of the metrics only; ``egress`` may go out, or nothing if that is None."""
    ingress = [{"ports": [{"protocol": "TCP", "port": port}]}]
    spec: Fields = {
        "podSelector": {"matchLabels": {NAME_LABEL: name}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": Noted(ingress, "Metrics and probes; the kubelet's calls come by a socket."),
    }
    if egress is not None:
        spec["egress"] = egress
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name, namespace),
        "spec": spec,
    }


def to_api_server() -> list[object]:
    """The rules of a policy that lets calls of the API server out."""
    ports = [{"protocol": "TCP", "port": port} for port in _API_PORTS]
    return [Noted({"ports": ports}, "The API server; narrow it to its addresses if you know them.")]
