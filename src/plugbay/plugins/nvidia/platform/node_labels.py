"""The labels of this node, asked of the cluster in which the plugin runs as a pod. Blocks.

Source: Kubernetes, "Accessing the Kubernetes API from a Pod".
"""

from __future__ import annotations

import json
import ssl
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Final

from plugbay.errors import PathUnusable, UsageError

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_ANSWER_S: Final = 10.0
_MOST_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class ClusterApi:
    """The API of a cluster.

    Attributes:
        url: such as ``https://10.0.0.1:443``.
        account: directory with the ``token`` of a service account that may get nodes, and the cluster's ``ca.crt``.
    """

    url: str
    account: Path = _ACCOUNT

    def labels_of(self, node: str) -> Mapping[str, str]:
        """The labels of a node.

        Raises:
            PathUnusable: the service account cannot be read.
            UsageError: the cluster does not answer, or not with a node.
        """
        address = f"{self.url}/api/v1/nodes/{urllib.parse.quote(node, safe='')}"
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {self._token()}"})
        try:
            context = ssl.create_default_context(cafile=str(self.account / "ca.crt")) if self._is_encrypted else None
            with urllib.request.urlopen(request, timeout=_ANSWER_S, context=context) as answer:
                found = json.loads(answer.read(_MOST_BYTES))["metadata"].get("labels") or {}
            return {str(name): str(value) for name, value in found.items()}
        except (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(
                f"the labels of node {node} cannot be read from {self.url}: {error}; the service account of the plugin "
                "has to be allowed to get nodes"
            ) from error

    @property
    def _is_encrypted(self) -> bool:
        return self.url.startswith("https:")

    def _token(self) -> str:
        try:
            return (self.account / "token").read_text(encoding="utf-8").strip()
        except OSError as error:
            raise PathUnusable(str(self.account / "token"), f"cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise PathUnusable(str(self.account / "token"), "is not UTF-8 text") from error


def cluster_of(environment: Mapping[str, str]) -> ClusterApi:
    """The cluster in which this process runs as a pod.

    Raises:
        UsageError: it does not.
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise UsageError(
            "a label of the node is to choose the configuration, and this process is not a pod of a cluster: "
            "KUBERNETES_SERVICE_HOST is not set; use --config-file instead"
        )
    return ClusterApi(f"https://{f'[{host}]' if ':' in host else host}:{port}")
