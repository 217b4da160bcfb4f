"""Fields of a pod in the environment of its containers, and in files: v1's ``fieldRef``.

Source: Kubernetes 1.36 ``pkg/fieldpath/fieldpath.go``, ``validation.go`` (``validEnvDownwardAPIFieldPathExpressions``,
``validVolumeDownwardAPIFieldPathExpressions``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from plugbay.errors import quote
from plugbay.model.pods import Pod

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
_IN_FILES: Final = ("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations")
DEFAULT_ACCOUNT: Final = "default"
"""The service account of pods that name none."""


def is_field_path(path: str) -> bool:
    """Whether an environment variable may take its value from ``path``."""
    return path in FIELD_PATHS or _SUBSCRIPT.fullmatch(path) is not None


def is_file_field_path(path: str) -> bool:
    """Whether a file of a volume may take its content from ``path``."""
    return path in _IN_FILES or _SUBSCRIPT.fullmatch(path) is not None


def file_text(path: str, pod: Pod) -> str:
    """The content of a file with a field of ``pod``: of all labels or annotations, a line for each."""
    match path:
        case "metadata.labels":
            return _lines(pod.labels)
        case "metadata.annotations":
            return _lines(pod.annotations)
        case _:
            return field_value(path, pod, host_ip="", pod_ips=())


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={quote(values[key])}" for key in sorted(values))


def field_value(path: str, pod: Pod, *, host_ip: str, pod_ips: Sequence[str]) -> str:
    """The value of a field that `is_field_path`.

    Args:
        host_ip: the address of the node.
        pod_ips: the pod's addresses; those of the node when it shares the node's network.
    """
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
            return pod.spec.service_account or DEFAULT_ACCOUNT
        case "status.podIP":
            return pod_ips[0]
        case "status.podIPs":
            return ",".join(pod_ips)
        case _:
            return host_ip
