"""The API of the cluster in which the process runs as a pod.

Requests block; `plugbay.ops.cluster_stream` follows answers that go on.

Source: Kubernetes, "Accessing the Kubernetes API from a Pod", "API Concepts".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
        # Imported here: a process that follows an object does without these megabytes.
        import json
        import ssl
        import urllib.error
        import urllib.parse
        import urllib.request
        from http.client import HTTPException

        address = "/".join((self.url, *(urllib.parse.quote(part, safe="") for part in path)))
        headers = {"Authorization": f"Bearer {self.token()}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address, content, headers, method=method)
        try:
            context = ssl.create_default_context(cafile=self.authority) if self.is_encrypted else None
            with urllib.request.urlopen(request, timeout=_ANSWER_S, context=context) as answer:
                return ClusterAnswer(answer.status, json.loads(answer.read(_MOST_BYTES)))
        except urllib.error.HTTPError as error:
            return ClusterAnswer(error.code, _content(error.read))
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            raise ClusterUnusable(f"the cluster cannot be asked at {self.url}: {error}") from error

    @property
    def is_encrypted(self) -> bool:
        """Whether it speaks TLS, as every cluster's does."""
        return self.url.startswith("https:")

    @property
    def authority(self) -> str:
        """The file with the certificate that the cluster's is signed with."""
        return str(self.account / "ca.crt")

    def token(self) -> str:
        """The token of the service account, which is replaced from time to time: it is read for each request.

        Raises:
            PathUnusable: it cannot be read.
        """
        try:
            return (self.account / "token").read_text(encoding="utf-8").strip()
        except OSError as error:
            raise PathUnusable(str(self.account / "token"), f"cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise PathUnusable(str(self.account / "token"), "is not UTF-8 text") from error


def _content(read: Callable[[int], bytes]) -> Any:
    """The JSON of an error; None if it has none."""
    import json
    from http.client import HTTPException

    try:
        return json.loads(read(_MOST_BYTES))
    except (OSError, HTTPException, ValueError, RecursionError):
        return None


def cluster_of(environment: Mapping[str, str], purpose: str) -> ClusterApi:
    """The cluster in which this process runs as a pod.

    Args:
        purpose: half a sentence that says what asks for it.

    Raises:
        ClusterUnusable: it does not.
    """
    if (cluster := own_cluster(environment)) is None:
        raise not_in_a_pod(purpose)
    return cluster


def own_cluster(environment: Mapping[str, str]) -> ClusterApi | None:
    """The cluster in which this process runs as a pod; None if it does not."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    return ClusterApi(f"https://{f'[{host}]' if ':' in host else host}:{port}") if host else None


def not_in_a_pod(purpose: str) -> ClusterUnusable:
    """The error that a process has no cluster to ask."""
    return ClusterUnusable(f"{purpose}, and this process is not a pod of a cluster: KUBERNETES_SERVICE_HOST is not set")
