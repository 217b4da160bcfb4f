"""The lists of v1 objects whose items are told apart by a field. Pure.

Source: Kubernetes 1.36 ``api/core/v1/types.go``, ``patchStrategy`` and ``patchMergeKey``.
"""

from __future__ import annotations

from typing import Final

from plugbay.objects.strategic_merge import MergeRule


def _by(key: str, **fields: MergeRule) -> MergeRule:
    return MergeRule(key, fields=fields)


_METADATA: Final = MergeRule(fields={"finalizers": MergeRule(is_set=True), "ownerReferences": _by("uid")})
_CONTAINERS: Final = _by(
    "name", env=_by("name"), ports=_by("containerPort"), volumeMounts=_by("mountPath"), volumeDevices=_by("devicePath")
)
_POD_SPEC: Final = MergeRule(
    fields={
        "containers": _CONTAINERS,
        "initContainers": _CONTAINERS,
        "ephemeralContainers": _CONTAINERS,
        "hostAliases": _by("ip"),
        "imagePullSecrets": _by("name"),
        "resourceClaims": _by("name"),
        "topologySpreadConstraints": _by("topologyKey"),
        "volumes": _by("name"),
    }
)
_POD_STATUS: Final = MergeRule(fields={"conditions": _by("type"), "podIPs": _by("ip"), "hostIPs": _by("ip")})

OBJECT: Final = MergeRule(fields={"metadata": _METADATA})
"""Any object, by its metadata alone."""
POD: Final = MergeRule(fields={"metadata": _METADATA, "spec": _POD_SPEC, "status": _POD_STATUS})
NODE: Final = MergeRule(
    fields={
        "metadata": _METADATA,
        "spec": MergeRule(fields={"podCIDRs": MergeRule(is_set=True)}),
        "status": MergeRule(fields={"conditions": _by("type"), "addresses": _by("type")}),
    }
)
