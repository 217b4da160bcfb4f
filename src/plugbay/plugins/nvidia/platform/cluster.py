"""The API of the cluster in which the process runs as a pod. Blocks.

Source: Kubernetes, "Accessing the Kubernetes API from a Pod", "API Concepts".
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from plugbay.errors import ClusterUnusable, PathUnusable
from plugbay.values import dataclass

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_ANSWER_S: Final = 10.0
_MOST_BYTES: Final = 8 << 20
_ERRORS: Final = 400


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """An answer.

    Attributes:
        status: of HTTP.
        content: the object, or what the API says of an error.
    """

    status: int
    content: Any

    @property
    def is_good(self) -> bool:
        return self.status < _ERRORS

    def __str__(self) -> str:
        said = self.content.get("message") if isinstance(self.content, dict) else None
        return f"status {self.status}{f': {said}' if said else ''}"


@dataclass(frozen=True, slots=True)
class ClusterApi:
    """The API of a cluster.

    Attributes:
        url: such as ``https://10.0.0.1:443``.
        account: directory with the ``token`` of a service account, and the cluster's ``ca.crt``.
    """

    url: str
    account: Path = _ACCOUNT

    def send(self, method: str, *path: str, body: Mapping[str, Any] | None = None) -> ClusterAnswer:
        """Send a request, and return the answer, which may be a refusal.

        Args:
            path: the parts of the path, which may hold any characters.

        Raises:
            PathUnusable: the service account cannot be read.
            ClusterUnusable: the cluster does not answer, or not in JSON.
        """
        address = "/".join((self.url, *(urllib.parse.quote(part, safe="") for part in path)))
        headers = {"Authorization": f"Bearer {self._token()}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address, content, headers, method=method)
        try:
            context = ssl.create_default_context(cafile=str(self.account / "ca.crt")) if self._is_encrypted else None
            with urllib.request.urlopen(request, timeout=_ANSWER_S, context=context) as answer:
                return ClusterAnswer(answer.status, json.loads(answer.read(_MOST_BYTES)))
        except urllib.error.HTTPError as error:
            return ClusterAnswer(error.code, _content(error))
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            raise ClusterUnusable(f"the cluster cannot be asked at {self.url}: {error}") from error

    def labels_of(self, node: str) -> Mapping[str, str]:
        """The labels of a node.

        Raises:
            PathUnusable: the service account cannot be read.
            ClusterUnusable: the cluster does not answer, or not with a node.
        """
        try:
            answer = self.send("GET", "api", "v1", "nodes", node)
            if not answer.is_good:
                raise ValueError(answer)
            found = answer.content["metadata"].get("labels") or {}
            return {str(name): str(value) for name, value in found.items()}
        except (ClusterUnusable, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ClusterUnusable(
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


def _content(error: urllib.error.HTTPError) -> Any:
    """The JSON of an error; None if it has none."""
    try:
        return json.loads(error.read(_MOST_BYTES))
    except (OSError, HTTPException, ValueError, RecursionError):
        return None


def cluster_of(environment: Mapping[str, str], purpose: str) -> ClusterApi:
    """The cluster in which this process runs as a pod.

    Args:
        purpose: half a sentence that says what asks for it.

    Raises:
        ClusterUnusable: it does not.
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ClusterUnusable(
            f"{purpose}, and this process is not a pod of a cluster: KUBERNETES_SERVICE_HOST is not set"
        )
    return ClusterApi(f"https://{f'[{host}]' if ':' in host else host}:{port}")
