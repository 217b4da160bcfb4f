"""A Deployment that is scaled while it is rolled out: each ReplicaSet gets its share. Pure.

Source: Kubernetes 1.36 ``pkg/controller/deployment/sync.go`` (``scale``), ``deployment_util.go``
(``GetReplicaSetProportion``).
"""

from __future__ import annotations

from collections.abc import Sequence

from plugbay.node.controllers.deployments.seen import MOST, SeenDeployment, SeenReplicaSet


def shares(
    active: Sequence[SeenReplicaSet], allowed: int, deployment: SeenDeployment
) -> list[tuple[SeenReplicaSet, int]]:
    """The sizes that ReplicaSets get so that they have ``allowed`` pods together; the first one takes what is left."""
    to_add = allowed - sum(each.replicas for each in active)
    if to_add > 0:  # the largest first, of equals the newest
        ordered = sorted(sorted(active, key=lambda each: each.age_key, reverse=True), key=lambda each: -each.replicas)
    else:
        ordered = sorted(sorted(active, key=lambda each: each.age_key), key=lambda each: -each.replicas)
    added = 0
    sizes: list[int] = []
    for each in ordered:
        share = _share(each, deployment, to_add, added) if to_add else 0
        sizes.append(each.replicas + share)
        added += share
    if sizes:
        sizes[0] = max(0, sizes[0] + to_add - added)
    return list(zip(ordered, sizes, strict=True))


def _share(one: SeenReplicaSet, deployment: SeenDeployment, to_add: int, added: int) -> int:
    if not one.replicas or to_add == added:
        return 0
    fraction = _fraction(one, deployment)
    left = to_add - added
    return min(fraction, left) if to_add > 0 else max(fraction, left)


def _fraction(one: SeenReplicaSet, deployment: SeenDeployment) -> int:
    if not deployment.replicas:
        return -one.replicas
    most_before = one.annotations.get(MOST, "")
    before = int(most_before) if most_before.isdigit() and int(most_before) else deployment.replicas
    new_size = one.replicas * (deployment.replicas + deployment.max_surge) / before
    return _rounded(new_size) - one.replicas


def _rounded(number: float) -> int:
    """Halves away from zero."""
    return int(number + 0.5) if number >= 0 else int(number - 0.5)
