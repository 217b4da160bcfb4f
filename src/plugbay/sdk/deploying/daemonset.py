"""The DaemonSet of a plugin process. Pure.

What differs from plugin to plugin is in its `Parts`: values for a manifest, expressions for a chart. All else is here,
once for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from plugbay.sdk.deploying.deployment import FILES, PORT
from plugbay.sdk.deploying.noted_yaml import Noted, Wrapped
from plugbay.sdk.deploying.plugin_needs import KUBELET_ROOT
from plugbay.values import dataclass

Fields = dict[str, object]

NAME_LABEL: Final = "app.kubernetes.io/name"
_SERVE: Final = ("plugbay", "serve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts in which plugins differ. A field that is None is left out.

    Attributes:
        about: the comment at the top.
        targets: further words of the command.
        port: of metrics and probes; ``metrics`` is the word of the command for it.
        files: the volume of the ConfigMap with the mount, or None.
        pull_policy, pull_secrets: how the image is had; a chart's only.
        automount: whether the pod gets a token for the API server.
    """

    name: object
    namespace: object
    about: str
    image: object
    targets: Sequence[object]
    resources: object
    security: object
    mounts: Sequence[object]
    volumes: Sequence[object]
    files: tuple[object, object] | None
    automount: object
    priority_class: object
    tolerations: object
    update: object
    port: object = PORT
    metrics: object = f"--metrics=:{PORT}"
    annotations: object = None
    env: object = None
    service_account: object = None
    node_selector: object = None
    affinity: object = None
    runtime_class: object = None
    pull_policy: object = None
    pull_secrets: object = None


def metadata(name: object, namespace: object, labels: Mapping[str, object] | None = None) -> Fields:
    """The metadata of each object of a plugin."""
    return {"name": name, "namespace": namespace, "labels": {NAME_LABEL: name, **(labels or {})}}


def daemon_set(parts: Parts) -> Fields:
    """The DaemonSet; the same for the same parts."""
    labels = {NAME_LABEL: parts.name}
    return {
        "apiVersion": Noted("apps/v1", parts.about),
        "kind": "DaemonSet",
        "metadata": metadata(parts.name, parts.namespace),
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": parts.update,
            "template": {"metadata": _present(labels=labels, annotations=parts.annotations), "spec": _pod(parts)},
        },
    }


def _pod(parts: Parts) -> Fields:
    files = [] if parts.files is None else [parts.files[0]]
    return _present(
        priorityClassName=_noted(parts.priority_class, "Pods wait for the devices, so it goes before them,"),
        tolerations=_noted(parts.tolerations, "and onto nodes that refuse others."),
        nodeSelector=parts.node_selector,
        affinity=parts.affinity,
        runtimeClassName=parts.runtime_class,
        serviceAccountName=parts.service_account,
        automountServiceAccountToken=parts.automount,
        imagePullSecrets=parts.pull_secrets,
        securityContext={"seccompProfile": {"type": "RuntimeDefault"}},
        containers=[_container(parts)],
        volumes=[*parts.volumes, *files],
    )


def _container(parts: Parts) -> Fields:
    ready = {"httpGet": {"path": "/readyz", "port": "metrics"}, "periodSeconds": 5}
    alive = {"httpGet": {"path": "/healthz", "port": "metrics"}, "periodSeconds": 10}
    return _present(
        name="plugin",
        image=parts.image,
        imagePullPolicy=parts.pull_policy,
        command=[*_SERVE, *parts.targets, f"--root={KUBELET_ROOT}", parts.metrics],
        env=parts.env,
        ports=[{"name": "metrics", "containerPort": parts.port}],
        readinessProbe=Noted(ready, "Ready once the kubelet has registered every resource and reads its devices."),
        livenessProbe=alive,
        resources=parts.resources,
        securityContext=parts.security,
        terminationMessagePath=Noted("/tmp/termination-log", "Not in /dev, which may be the host's."),
        volumeMounts=[*parts.mounts, *([] if parts.files is None else [parts.files[1]])],
    )


def files_volume(config_map: object) -> tuple[object, object]:
    """The volume of the ConfigMap's files, and its mount."""
    volume = {"name": "files", "configMap": {"name": config_map}}
    return volume, Noted({"name": "files", "mountPath": FILES, "readOnly": True}, "The files of the ConfigMap.")


def _present(**fields: object) -> Fields:
    return {name: value for name, value in fields.items() if value is not None}


def _noted(value: object, note: str) -> object:
    """``value`` with a comment; within what a chart wraps around it."""
    if isinstance(value, Wrapped):
        return Wrapped(value.opening, Noted(value.value, note))
    return Noted(value, note) if isinstance(value, str | Sequence | Mapping) else value
