"""The schema of the chart's values: all names, down to those of v1's fields, whose values are the API server's. Pure.

Source: Kubernetes 1.36 ``core/v1``, ``apps/v1``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from plugbay.sdk.deploying.chart_values import MONITOR, TOGGLES
from plugbay.sdk.deploying.rights import TAKEN_VOLUMES

V1_FIELDS: Final[Mapping[str, Sequence[str]]] = {
    "Affinity": ("nodeAffinity", "podAffinity", "podAntiAffinity"),
    "DaemonSetUpdateStrategy": ("rollingUpdate", "type"),
    "EnvVar": ("name", "value", "valueFrom"),
    "ResourceRequirements": ("claims", "limits", "requests"),
    "SecurityContext": (
        "allowPrivilegeEscalation",
        "appArmorProfile",
        "capabilities",
        "privileged",
        "procMount",
        "readOnlyRootFilesystem",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "seLinuxOptions",
        "seccompProfile",
        "windowsOptions",
    ),
    "Toleration": ("effect", "key", "operator", "tolerationSeconds", "value"),
    "VolumeMount": (
        "mountPath",
        "mountPropagation",
        "name",
        "readOnly",
        "recursiveReadOnly",
        "subPath",
        "subPathExpr",
    ),
}
"""The fields of objects of v1 that values hold. A volume has too many kinds for that."""
_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_OBJECT: Final = {"type": "object"}
_TEXTS: Final = {"type": "object", "additionalProperties": _TEXT}
_VOLUME: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string", "not": {"enum": list(TAKEN_VOLUMES)}}},
}


def schema() -> str:
    """The text of ``values.schema.json``."""
    image = _closed(
        repository=_TEXT, tag=_TEXT, digest=_TEXT, pullPolicy={"enum": ["", "Always", "IfNotPresent", "Never"]}
    )
    defaults: dict[str, object] = {
        "priorityClassName": _TEXT,
        "tolerations": _list(_of_v1("Toleration")),
        "updateStrategy": _of_v1("DaemonSetUpdateStrategy"),
        "resources": _of_v1("ResourceRequirements"),
        "securityContext": _of_v1("SecurityContext"),
    }
    plugin = _closed(
        targets=_list({"type": "string", "minLength": 1}) | {"minItems": 1},
        files=_TEXTS | {"propertyNames": {"pattern": "^[-._a-zA-Z0-9]{1,253}$"}},
        image=image,
        env=_list(_of_v1("EnvVar")),
        volumes=_list(_VOLUME),
        volumeMounts=_list(_of_v1("VolumeMount")),
        nodeSelector=_TEXTS,
        affinity=_of_v1("Affinity"),
        runtimeClassName=_TEXT,
        readsNodes=_FLAG,
        port={"type": "integer", "minimum": 1, "maximum": 65535},
        **defaults,
    ) | {"required": ["targets"]}
    name = {"pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
    whole = _closed(
        image=image,
        imagePullSecrets=_list(_OBJECT),
        plugins={"type": "object", "propertyNames": name, "additionalProperties": plugin},
        defaults=_closed(**defaults),
        **{"global": _OBJECT},
        **dict.fromkeys(TOGGLES, _closed(enabled=_FLAG)) | {MONITOR: _closed(enabled=_FLAG, labels=_TEXTS)},
    )
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **whole}, indent=2) + "\n"


def _of_v1(kind: str) -> dict[str, object]:
    return _closed(**{name: {} for name in V1_FIELDS[kind]})


def _list(of: object) -> dict[str, object]:
    return {"type": "array", "items": of}


def _closed(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "additionalProperties": False}
