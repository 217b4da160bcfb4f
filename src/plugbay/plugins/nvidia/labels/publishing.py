"""Write the NodeFeature object of a node through the API of its cluster. Blocks.

Source: gpu-feature-discovery 0.20 ``internal/lm/output.go``; spec 7.1.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from plugbay.errors import ClusterUnusable
from plugbay.ops.cluster import ClusterAnswer, ClusterApi
from plugbay.plugins.nvidia.labels.node_feature import (
    GROUP,
    VERSION,
    FeatureTarget,
    KubernetesObject,
    is_same,
    node_feature,
    owner_references,
)
from plugbay.plugins.nvidia.labels.resource_labels import Labels

logger = logging.getLogger(__name__)

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_FORBIDDEN: Final = (401, 403)
_TRIES: Final = 3
_COLLECTION: Final = ("apis", GROUP, VERSION, "namespaces")
_KIND: Final = "nodefeatures"


class Publication(Enum):
    """The outcome of writing labels."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "as it was"


class FeaturePublisher:
    """Writes the labels of one node.

    Args:
        cluster: with a service account that may get, create and update NodeFeature objects, and get pods.
    """

    def __init__(self, cluster: ClusterApi, target: FeatureTarget) -> None:
        self.target = target
        self._cluster = cluster
        self._collection = (*_COLLECTION, target.namespace, _KIND)
        self._owners: Sequence[Mapping[str, Any]] | None = () if not target.pod else None  # None while not known

    def publish(self, labels: Labels) -> Publication:
        """Create the object, or bring it up to these labels.

        Raises:
            PathUnusable: the service account cannot be read.
            ClusterUnusable: the cluster does not answer, or refuses.
        """
        if self._owners is None:
            self._owners = self._find_owners()
        for tries_left in reversed(range(_TRIES)):
            outcome = self._write(labels)
            if isinstance(outcome, Publication):
                return outcome
            if outcome.status != _CONFLICT or not tries_left:  # else something has written it at this moment
                raise self._refused(outcome, "written")
        raise AssertionError("the last try returns or raises")

    def _write(self, labels: Labels) -> Publication | ClusterAnswer:
        """Write the labels once; returns the cluster's answer if that is a refusal."""
        found = self._cluster.send("GET", *self._collection, self.target.name)
        if found.status == _NOT_FOUND:
            fresh = node_feature(self.target, labels, self._owners or ())
            answer = self._cluster.send("POST", *self._collection, body=fresh)
            return Publication.CREATED if answer.is_good else answer
        if not found.is_good or not isinstance(found.content, dict):
            raise self._refused(found, "read")
        wanted = node_feature(self.target, labels, self._kept_owners(found.content), found.content)
        if is_same(found.content, wanted):
            return Publication.UNCHANGED
        answer = self._cluster.send("PUT", *self._collection, self.target.name, body=wanted)
        return Publication.UPDATED if answer.is_good else answer

    def _kept_owners(self, found: KubernetesObject) -> Sequence[Mapping[str, Any]]:
        """The owners; those that the object has while ours are not known."""
        if self._owners is not None:
            return self._owners
        return found["metadata"].get("ownerReferences") or ()

    def _find_owners(self) -> Sequence[Mapping[str, Any]] | None:
        namespace, pod = self.target.namespace, self.target.pod
        try:
            answer = self._cluster.send("GET", "api", "v1", "namespaces", namespace, "pods", pod)
            if answer.is_good:
                return owner_references(answer.content)
            problem = str(answer)
        except (ClusterUnusable, LookupError, TypeError, AttributeError) as error:
            problem = str(error)
        logger.warning(
            "the NodeFeature object of %s is not removed with its DaemonSet, as pod %s/%s cannot be read: %s; "
            "the service account has to be allowed to get pods",
            self.target.node,
            namespace,
            pod,
            problem,
        )
        return None

    def _refused(self, answer: ClusterAnswer, action: str) -> ClusterUnusable:
        way = ""
        if answer.status in _FORBIDDEN:
            way = "; the service account has to be allowed to get, create and update nodefeatures"
        elif answer.status == _NOT_FOUND:
            way = "; is Node Feature Discovery installed, and the namespace there?"
        return ClusterUnusable(
            f"NodeFeature {self.target.namespace}/{self.target.name} cannot be {action}: {answer}{way}"
        )
