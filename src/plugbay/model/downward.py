"""Fields of a pod in the environment of its containers: v1's ``fieldRef``.

Source: Kubernetes 1.36 ``pkg/fieldpath/fieldpath.go``, ``validation.go`` (``validEnvDownwardAPIFieldPathExpressions``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from plugbay.model.pods import Container, EnvVar, Pod

FIELD_PATHS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
"""The fields a container can ask for, besides single labels and annotations."""

_SUBSCRIPT: Final = re.compile(r"metadata\.(?P<map>labels|annotations)\['(?P<key>[^']+)'\]")
_SERVICE_ACCOUNT: Final = ("spec", "serviceAccountName")
_DEFAULT_ACCOUNT: Final = "default"


def is_field_path(path: str) -> bool:
    """Whether an environment variable may take its value from ``path``."""
    return path in FIELD_PATHS or _SUBSCRIPT.fullmatch(path) is not None


def with_field_values(container: Container, pod: Pod, *, host_ip: str, pod_ips: Sequence[str] = ()) -> Container:
    """Write the values of fields into the environment of ``container``; they are never expanded.

    Args:
        host_ip: the address of the node, and of pods that share its network.
        pod_ips: the pod's own addresses; none when it shares the node's network.
    """
    ips = tuple(pod_ips) or (host_ip,)
    return replace(container, env=tuple(_written_out(variable, pod, host_ip, ips) for variable in container.env))


def _written_out(variable: EnvVar, pod: Pod, host_ip: str, pod_ips: Sequence[str]) -> EnvVar:
    if not variable.field_path:
        return variable
    return EnvVar(variable.name, _value(variable.field_path, pod, host_ip, pod_ips).replace("$", "$$"))


def _value(path: str, pod: Pod, host_ip: str, pod_ips: Sequence[str]) -> str:
    if match := _SUBSCRIPT.fullmatch(path):
        values = pod.labels if match["map"] == "labels" else pod.annotations
        return values.get(match["key"], "")
    match path:
        case "metadata.name":
            return pod.name
        case "metadata.namespace":
            return pod.namespace
        case "metadata.uid":
            return pod.uid
        case "spec.nodeName":
            return pod.spec.node_name or ""
        case "spec.serviceAccountName":
            return str(pod.unused.get(_SERVICE_ACCOUNT) or _DEFAULT_ACCOUNT)
        case "status.podIP":
            return pod_ips[0]
        case "status.podIPs":
            return ",".join(pod_ips)
        case _:
            return host_ip
