"""The values that an API server gives to fields of pods and of their templates that the author left out.

Nothing here decides: a pod without these fields means the same. They are for readers of the API, some of whom rely on
them (``kubectl debug`` ends if there is no ``securityContext``), and so that a pod that names them is not another one.

Source: Kubernetes 1.36 ``pkg/apis/core/v1/defaults.go``; ``+default`` in ``api/core/v1/types.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from plugbay.documents import Json
from plugbay.model.images import default_pull_policy
from plugbay.model.placement import DEFAULT_SCHEDULER
from plugbay.model.pods import DEFAULT_GRACE_PERIOD_S, RestartPolicy
from plugbay.model.ports import Protocol
from plugbay.model.projections import DEFAULT_FILE_MODE, DEFAULT_TOKEN_S
from plugbay.model.resolution import DnsPolicy
from plugbay.model.termination import DEFAULT_MESSAGE


class _Defaults(NamedTuple):
    """The defaults of one kind of mapping.

    Attributes:
        missing: for fields that are not there.
        empty: for fields that are not there, or are an empty text or 0.
        below: for the mappings in further fields, or in their lists.
    """

    missing: Mapping[str, object] = {}
    empty: Mapping[str, object] = {}
    below: Mapping[str, _Defaults] = {}


_FIELD_REF: Final = _Defaults(empty={"apiVersion": "v1"})
_FIELD_FILES: Final = {"items": _Defaults(below={"fieldRef": _FIELD_REF})}
_HTTP_GET: Final = _Defaults(empty={"path": "/", "scheme": "HTTP"})
_HOOK: Final = _Defaults(below={"httpGet": _HTTP_GET})
_PROBE: Final = _Defaults(
    empty={"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    below={"httpGet": _HTTP_GET, "grpc": _Defaults({"service": ""})},
)
_CONTAINER: Final = _Defaults(
    missing={"resources": {}},
    empty={"terminationMessagePath": DEFAULT_MESSAGE.path, "terminationMessagePolicy": DEFAULT_MESSAGE.policy.value},
    below={
        "env": _Defaults(below={"valueFrom": _Defaults(below={"fieldRef": _FIELD_REF})}),
        "lifecycle": _Defaults(below={"postStart": _HOOK, "preStop": _HOOK}),
        "livenessProbe": _PROBE,
        "ports": _Defaults(empty={"protocol": Protocol.TCP.value}),
        "readinessProbe": _PROBE,
        "startupProbe": _PROBE,
    },
)
_MODE: Final = {"defaultMode": DEFAULT_FILE_MODE}
_SOURCE: Final = _Defaults(
    below={
        "downwardAPI": _Defaults(below=_FIELD_FILES),
        "serviceAccountToken": _Defaults({"expirationSeconds": DEFAULT_TOKEN_S}),
    }
)
_VOLUME: Final = _Defaults(
    below={
        "configMap": _Defaults(_MODE),
        "downwardAPI": _Defaults(_MODE, below=_FIELD_FILES),
        "hostPath": _Defaults({"type": ""}),
        "projected": _Defaults(_MODE, below={"sources": _SOURCE}),
        "secret": _Defaults(_MODE),
    }
)
_CONTAINERS: Final = ("containers", "initContainers")
_SPEC: Final = _Defaults(
    missing={"securityContext": {}, "terminationGracePeriodSeconds": DEFAULT_GRACE_PERIOD_S},
    empty={
        "dnsPolicy": DnsPolicy.CLUSTER_FIRST.value,
        "restartPolicy": RestartPolicy.ALWAYS.value,
        "schedulerName": DEFAULT_SCHEDULER,
    },
    below={**dict.fromkeys(_CONTAINERS, _CONTAINER), "volumes": _VOLUME},
)


def with_pod_defaults(pod: Json) -> Json:
    """A v1 Pod with the defaults of its specification."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    return {**pod, "spec": {"enableServiceLinks": True, **with_spec_defaults(spec)}}


def with_spec_defaults(spec: Json) -> Json:
    """The specification of a pod template with the defaults that templates have too."""
    filled = _filled(spec, _SPEC)
    for name in _CONTAINERS:
        if isinstance(containers := filled.get(name), list):
            filled[name] = [_with_pull_policy(each) for each in containers]
    if isinstance(volumes := filled.get("volumes"), list):
        filled["volumes"] = [_with_source(each) for each in volumes]
    return filled


def _filled(value: Json, defaults: _Defaults) -> Json:
    filled = {name: each for name, each in value.items() if each is not None}
    for name, default in defaults.missing.items():
        filled.setdefault(name, dict(default) if isinstance(default, dict) else default)
    for name, default in defaults.empty.items():
        if filled.get(name) in ("", 0, None):
            filled[name] = default
    for name, inner in defaults.below.items():
        match filled.get(name):
            case dict() as one:
                filled[name] = _filled(one, inner)
            case list() as several:
                filled[name] = [_filled(each, inner) if isinstance(each, dict) else each for each in several]
    return filled


def _with_pull_policy(container: object) -> object:
    """A container without an image, which only this node takes, has no policy."""
    if not isinstance(container, dict) or container.get("imagePullPolicy") or not container.get("image"):
        return container
    return container | {"imagePullPolicy": default_pull_policy(str(container["image"])).value}


def _with_source(volume: object) -> object:
    """A volume without any source is an emptyDir."""
    return volume | {"emptyDir": {}} if isinstance(volume, dict) and volume.keys() <= {"name"} else volume
