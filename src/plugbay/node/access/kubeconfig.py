"""The kubeconfig of a node: where its API is, the authority to trust, and the token."""

from __future__ import annotations

import base64

import yaml

_NAME = "plugbay"


def kubeconfig(server: str, *, authority: str, token: str) -> str:
    """A kubeconfig with one context, as kubectl and every client library read it.

    Args:
        server: the URL of the API.
        authority: a certificate in PEM.
    """
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority.encode()).decode()}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": token}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}],
        "current-context": _NAME,
    }
    return yaml.safe_dump(content, sort_keys=False)
