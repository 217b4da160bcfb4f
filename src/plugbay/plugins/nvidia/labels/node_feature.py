"""NodeFeature objects, in which Node Feature Discovery finds labels. Pure.

Source: gpu-feature-discovery 0.20 ``internal/lm/output.go``; NFD's API ``nfd.k8s-sigs.io/v1alpha1``; spec 7.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from plugbay.plugins.nvidia.labels.resource_labels import Labels
from plugbay.values import dataclass

GROUP: Final = "nfd.k8s-sigs.io"
VERSION: Final = "v1alpha1"
_NODE_NAME: Final = "nfd.node.kubernetes.io/node-name"
_DAEMON_SET: Final = "DaemonSet"
KubernetesObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FeatureTarget:
    """The place of a node's labels in the cluster.

    Attributes:
        namespace: of the object.
        node: whose labels they are.
        pod: in which this process runs; empty when that is not known.
    """

    namespace: str
    node: str
    pod: str = ""

    @property
    def name(self) -> str:
        """The name of the object."""
        return f"nvidia-features-for-{self.node}"


def owner_references(pod: KubernetesObject) -> list[dict[str, Any]]:
    """The owners that an object gets: the pod's DaemonSet and the pod; none for a pod without a DaemonSet.

    The cluster removes the object when they are gone.
    """
    metadata = pod["metadata"]
    owners = metadata.get("ownerReferences") or ()
    daemon_set = next((owner for owner in owners if owner["kind"] == _DAEMON_SET), None)
    if daemon_set is None:
        return []
    reference = {key: daemon_set[key] for key in ("apiVersion", "kind", "name", "uid")}
    pod_reference = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    return [{**reference, "controller": True}, pod_reference]


def node_feature(
    target: FeatureTarget, labels: Labels, owners: Sequence[Mapping[str, Any]], found: KubernetesObject | None = None
) -> dict[str, Any]:
    """The object with these labels: a new one, or the one that was found with what is ours replaced."""
    metadata = dict(found["metadata"]) if found is not None else {"name": target.name, "namespace": target.namespace}
    metadata["labels"] = {_NODE_NAME: target.node}
    metadata.pop("ownerReferences", None)
    if owners:
        metadata["ownerReferences"] = list(owners)
    features: dict[str, Any] = {"flags": {}, "attributes": {}, "instances": {}}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "NodeFeature",
        "metadata": metadata,
        "spec": {"features": features, "labels": dict(labels)},
    }


def is_same(found: KubernetesObject, wanted: KubernetesObject) -> bool:
    """Whether an object says what is wanted, so that there is nothing to write."""
    return _ours(found) == _ours(wanted)


def _ours(each: KubernetesObject) -> tuple[Any, ...]:
    metadata, spec = each.get("metadata") or {}, each.get("spec") or {}
    features = {kind: content for kind, content in (spec.get("features") or {}).items() if content}
    return metadata.get("labels"), metadata.get("ownerReferences") or [], spec.get("labels") or {}, features
