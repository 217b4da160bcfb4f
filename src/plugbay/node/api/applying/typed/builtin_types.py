"""The types of the kinds that an API server has: which lists have keys, and what is owned whole. Pure.

Only what is special is written here; all else is `STRUCT`. Names are those of Kubernetes 1.36.

Source: client-go 1.36 ``applyconfigurations/internal/internal.go`` (the OpenAPI extensions ``x-kubernetes-list-type``,
``x-kubernetes-list-map-keys`` and ``x-kubernetes-map-type`` of all kinds).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.applying.typed.types import (
    ATOMIC,
    VALUE_SET,
    FieldType,
    MapType,
    Others,
    VersionedType,
    keyed,
    struct,
)

_WHOLE: Final = FieldType(map=MapType(others=Others.STRUCT, is_atomic=True))
"""References and selectors: a part of one means nothing without the others."""


def _by_name(item: FieldType) -> FieldType:
    return keyed(item, name="")


def _whole(*names: str) -> FieldType:
    """An object whose named fields are owned whole."""
    return struct(**dict.fromkeys(names, _WHOLE))


_METADATA: Final = struct(finalizers=VALUE_SET, ownerReferences=keyed(_WHOLE, uid=""))
_CONDITIONS: Final = keyed(struct(), type="")
_AMOUNTS: Final = struct(claims=_by_name(struct()))
_ENV_SOURCE: Final = _whole("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef")
_CONTAINERS: Final = _by_name(
    struct(
        env=_by_name(struct(valueFrom=_ENV_SOURCE)),
        ports=keyed(struct(), containerPort=0, protocol="TCP"),
        resources=_AMOUNTS,
        volumeDevices=keyed(struct(), devicePath=""),
        volumeMounts=keyed(struct(bindMountOptions=VALUE_SET), mountPath=""),
    )
)
_CLAIM_SPEC: Final = struct(dataSource=_WHOLE, selector=_WHOLE)
_VOLUME_SOURCES: Final = {
    name: _whole("secretRef") for name in ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
}
_VOLUME: Final = struct(
    **_VOLUME_SOURCES,
    csi=_whole("nodePublishSecretRef"),
    ephemeral=struct(volumeClaimTemplate=struct(metadata=_METADATA, spec=_CLAIM_SPEC)),
)
_POD_SPEC: Final = struct(
    affinity=struct(nodeAffinity=_whole("requiredDuringSchedulingIgnoredDuringExecution")),
    containers=_CONTAINERS,
    ephemeralContainers=_CONTAINERS,
    evictionResponders=_by_name(_WHOLE),
    hostAliases=keyed(struct(), ip=""),
    imagePullSecrets=_by_name(_WHOLE),
    initContainers=_CONTAINERS,
    nodeSelector=_WHOLE,
    resourceClaims=_by_name(struct()),
    resources=_AMOUNTS,
    schedulingGates=_by_name(struct()),
    topologySpreadConstraints=keyed(_whole("labelSelector"), topologyKey="", whenUnsatisfiable=""),
    volumes=_by_name(_VOLUME),
)
_POD_STATUS: Final = struct(
    conditions=_CONDITIONS,
    podIPs=keyed(struct(), ip=""),
    resourceClaimStatuses=_by_name(struct()),
    resources=_AMOUNTS,
)
_TEMPLATE: Final = struct(metadata=_METADATA, spec=_POD_SPEC)
_CONTROLLER: Final = struct(
    metadata=_METADATA,
    spec=struct(selector=_WHOLE, template=_TEMPLATE),
    status=struct(conditions=_CONDITIONS),
)
_WEBHOOKS: Final = struct(
    metadata=_METADATA,
    webhooks=_by_name(struct(matchConditions=_by_name(struct()), namespaceSelector=_WHOLE, objectSelector=_WHOLE)),
)
_BINDING: Final = struct(metadata=_METADATA, roleRef=_WHOLE)
_CLAIM_STATUS: Final = struct(
    allocation=_whole("nodeSelector"),
    devices=keyed(struct(conditions=_CONDITIONS, data=ATOMIC), driver="", device="", pool="", shareID=None),
    reservedFor=keyed(struct(), uid=""),
)

OBJECT: Final = struct(metadata=_METADATA)
"""A kind with nothing special but its metadata."""
_TYPES: Final[Mapping[tuple[str, str], FieldType]] = {
    ("", "Event"): struct(metadata=_METADATA, involvedObject=_WHOLE, related=_WHOLE),
    ("", "Namespace"): struct(metadata=_METADATA, status=struct(conditions=_CONDITIONS)),
    ("", "Node"): struct(
        metadata=_METADATA,
        spec=struct(podCIDRs=VALUE_SET),
        status=struct(addresses=keyed(struct(), type=""), conditions=_CONDITIONS),
    ),
    ("", "PersistentVolume"): struct(
        metadata=_METADATA,
        spec=struct(
            **_VOLUME_SOURCES,
            csi=_whole(
                "controllerExpandSecretRef",
                "controllerPublishSecretRef",
                "nodeExpandSecretRef",
                "nodePublishSecretRef",
                "nodeStageSecretRef",
            ),
            nodeAffinity=_whole("required"),
        ),
    ),
    ("", "PersistentVolumeClaim"): struct(metadata=_METADATA, spec=_CLAIM_SPEC, status=struct(conditions=_CONDITIONS)),
    ("", "Pod"): struct(metadata=_METADATA, spec=_POD_SPEC, status=_POD_STATUS),
    ("", "ResourceQuota"): struct(metadata=_METADATA, spec=_whole("scopeSelector")),
    ("", "Service"): struct(
        metadata=_METADATA,
        spec=struct(ports=keyed(struct(), port=0, protocol="TCP"), selector=_WHOLE),
        status=struct(conditions=_CONDITIONS),
    ),
    ("", "ServiceAccount"): struct(metadata=_METADATA, secrets=keyed(_WHOLE, name=None)),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): struct(
        metadata=_METADATA, status=struct(conditions=_CONDITIONS)
    ),
    ("apps", "DaemonSet"): _CONTROLLER,
    ("apps", "Deployment"): _CONTROLLER,
    ("apps", "ReplicaSet"): _CONTROLLER,
    ("batch", "Job"): struct(
        metadata=_METADATA,
        spec=struct(selector=_WHOLE, template=_TEMPLATE),
        status=struct(uncountedTerminatedPods=struct(failed=VALUE_SET, succeeded=VALUE_SET)),
    ),
    ("events.k8s.io", "Event"): struct(metadata=_METADATA, regarding=_WHOLE, related=_WHOLE),
    ("networking.k8s.io", "Ingress"): struct(
        metadata=_METADATA,
        spec=struct(defaultBackend=struct(resource=_WHOLE, service=_whole("port"))),
    ),
    ("networking.k8s.io", "NetworkPolicy"): struct(metadata=_METADATA, spec=_whole("podSelector")),
    ("node.k8s.io", "RuntimeClass"): struct(metadata=_METADATA, scheduling=_whole("nodeSelector")),
    ("policy", "PodDisruptionBudget"): struct(
        metadata=_METADATA, spec=_whole("selector"), status=struct(conditions=_CONDITIONS)
    ),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("resource.k8s.io", "ResourceClaim"): struct(metadata=_METADATA, status=_CLAIM_STATUS),
    ("resource.k8s.io", "ResourceClaimTemplate"): struct(metadata=_METADATA, spec=struct(metadata=_METADATA)),
    ("resource.k8s.io", "ResourceSlice"): struct(
        metadata=_METADATA, spec=struct(nodeSelector=_WHOLE, skipNodeOperations=VALUE_SET)
    ),
}


_TEMPLATE_BEFORE: Final[Json] = {"metadata": {}, "spec": {"containers": None}}
_BEFORE: Final[Mapping[tuple[str, str], Json]] = {
    ("", "Pod"): {"containers": None},
    ("apps", "DaemonSet"): {"selector": None, "template": _TEMPLATE_BEFORE, "updateStrategy": {}},
    ("apps", "Deployment"): {"selector": None, "strategy": {}, "template": _TEMPLATE_BEFORE},
    ("apps", "ReplicaSet"): {"selector": None, "template": _TEMPLATE_BEFORE},
    ("batch", "Job"): {"template": _TEMPLATE_BEFORE},
    ("resource.k8s.io", "ResourceClaim"): {"devices": {}},
    ("resource.k8s.io", "ResourceClaimTemplate"): {"metadata": {}, "spec": {"devices": {}}},
    ("resource.k8s.io", "ResourceSlice"): {"pool": {}},
}


@cache
def builtin_type(group: str, version: str, kind: str) -> VersionedType:
    """The type of a built-in kind.

    Structures that are in each object of a kind come from nobody: a client that creates one owns what is in them.
    """
    api_version = f"{group}/{version}" if group else version
    before: Json = {"metadata": {}, "spec": _BEFORE.get((group, kind), {}), "status": {}}
    return VersionedType(api_version, {api_version: _TYPES.get((group, kind), OBJECT)}, before)
