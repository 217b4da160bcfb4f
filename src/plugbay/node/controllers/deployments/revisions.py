"""Revisions: numbers that tell which template of a Deployment came after which. Pure.

Source: Kubernetes 1.36 ``deployment_util.go`` (``SetNewReplicaSetAnnotations``, ``SetDeploymentRevision``).
"""

from __future__ import annotations

from plugbay.node.controllers.deployments.seen import (
    OWN_ANNOTATIONS,
    REVISION,
    REVISION_HISTORY,
    SeenDeployment,
    SeenReplicaSet,
)
from plugbay.node.controllers.seen_pods import annotations_of
from plugbay.printers import v1


def with_new_revision(new: SeenReplicaSet, deployment: SeenDeployment, newest_old: int) -> SeenReplicaSet:
    """``new`` with a revision above those of all others, and with the annotations of its Deployment.

    An older revision that it had goes to its history: the Deployment was rolled back to it.
    """
    annotations = dict(new.annotations)
    taken = annotations_of(deployment.value)
    annotations |= {key: text for key, text in taken.items() if key not in OWN_ANNOTATIONS}
    revision = newest_old + 1
    if new.revision < revision:
        annotations[REVISION] = str(revision)
        if new.revision:
            earlier = [each for each in annotations.get(REVISION_HISTORY, "").split(",") if each]
            annotations[REVISION_HISTORY] = ",".join([*earlier, str(new.revision)])
    value = new.value
    if annotations != new.annotations:
        value = {**value, "metadata": {**v1.mapping(value, "metadata"), "annotations": annotations}}
    spec = v1.mapping(value, "spec")
    if v1.number(spec, "minReadySeconds") != deployment.min_ready_s:
        value = {**value, "spec": {**spec, "minReadySeconds": deployment.min_ready_s}}
    return SeenReplicaSet(value)


def with_revision(deployment: SeenDeployment, revision: int) -> SeenDeployment:
    """The Deployment with the revision of its newest ReplicaSet as an annotation."""
    annotations = annotations_of(deployment.value)
    if annotations.get(REVISION) == str(revision):
        return deployment
    metadata = {**v1.mapping(deployment.value, "metadata"), "annotations": {**annotations, REVISION: str(revision)}}
    return SeenDeployment({**deployment.value, "metadata": metadata})
