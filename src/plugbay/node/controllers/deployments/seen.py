"""A Deployment and its ReplicaSets as values. Pure.

Source: Kubernetes 1.36 ``pkg/controller/deployment/util/deployment_util.go``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import ceil, floor
from typing import Final

from plugbay.documents import Json
from plugbay.manifest.label_selectors import selector_of
from plugbay.model.owners import OwnerReference
from plugbay.node.controllers.seen_pods import Claim, annotations_of, labels_of, owner_references
from plugbay.node.controllers.templates import normal_template, without_hash
from plugbay.printers import v1
from plugbay.values import dataclass

KIND: Final = "Deployment"
REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
OWN_ANNOTATIONS: Final = frozenset({REVISION, REVISION_HISTORY, DESIRED, MOST, LAST_APPLIED})
"""Annotations that a ReplicaSet does not take over from its Deployment."""
ENDLESS: Final = 2**31 - 1
"""A deadline that never comes."""


@dataclass(frozen=True, slots=True)
class SeenReplicaSet:
    """A ReplicaSet; ``value`` is its v1 object."""

    value: Json

    @property
    def name(self) -> str:
        return v1.name(self.value)

    @property
    def labels(self) -> Mapping[str, str]:
        return labels_of(self.value)

    @property
    def annotations(self) -> Mapping[str, str]:
        return annotations_of(self.value)

    @property
    def owners(self) -> tuple[OwnerReference, ...]:
        return owner_references(self.value)

    @property
    def is_deleting(self) -> bool:
        return bool(v1.at(self.value, "metadata", "deletionTimestamp"))

    @property
    def created_at(self) -> datetime:
        return v1.moment(self.value, "metadata", "creationTimestamp") or datetime.min.replace(tzinfo=UTC)

    @property
    def age_key(self) -> tuple[datetime, str]:
        return self.created_at, self.name

    @property
    def replicas(self) -> int:
        return v1.number(self.value, "spec", "replicas")

    @property
    def revision(self) -> int:
        text = self.annotations.get(REVISION, "")
        return int(text) if text.isdigit() else 0

    @property
    def template(self) -> Json:
        """Its template as the Deployment had it."""
        return without_hash(v1.mapping(self.value, "spec", "template"))

    def count(self, name: str) -> int:
        """A number of its status."""
        return v1.number(self.value, "status", name)


@dataclass(frozen=True, slots=True)
class SeenDeployment:
    """A Deployment whose defaults are filled in; ``value`` is its v1 object."""

    value: Json

    @property
    def name(self) -> str:
        return v1.name(self.value)

    @property
    def replicas(self) -> int:
        return v1.number(self.value, "spec", "replicas")

    @property
    def template(self) -> Json:
        return v1.mapping(self.value, "spec", "template")

    @property
    def is_paused(self) -> bool:
        return v1.at(self.value, "spec", "paused") is True

    @property
    def is_deleting(self) -> bool:
        return bool(v1.at(self.value, "metadata", "deletionTimestamp"))

    @property
    def is_rolling(self) -> bool:
        return v1.text(self.value, "spec", "strategy", "type") != "Recreate"

    @property
    def min_ready_s(self) -> int:
        return v1.number(self.value, "spec", "minReadySeconds")

    @property
    def progress_deadline_s(self) -> int | None:
        deadline = v1.at(self.value, "spec", "progressDeadlineSeconds")
        return deadline if isinstance(deadline, int) and deadline != ENDLESS else None

    @property
    def history_limit(self) -> int:
        limit = v1.at(self.value, "spec", "revisionHistoryLimit")
        return limit if isinstance(limit, int) else 10

    @property
    def collisions(self) -> int:
        return v1.number(self.value, "status", "collisionCount")

    @property
    def claim(self) -> Claim:
        selector = selector_of(v1.mapping(self.value, "spec", "selector"))
        return Claim(v1.uid(self.value), selector, is_deleting=self.is_deleting)

    @property
    def max_surge(self) -> int:
        """The number of pods beyond those wanted that a rolling update may make."""
        if not self.is_rolling:
            return 0
        return part(v1.at(self.value, "spec", "strategy", "rollingUpdate", "maxSurge"), self.replicas, up=True)

    @property
    def max_unavailable(self) -> int:
        """The number of wanted pods that a rolling update may do without; at least one, if it may not make more."""
        if not self.is_rolling or not self.replicas:
            return 0
        given = v1.at(self.value, "spec", "strategy", "rollingUpdate", "maxUnavailable")
        wanted = part(given, self.replicas, up=False)
        return min(self.replicas, wanted or (0 if self.max_surge else 1))

    def owned(self, sets: Sequence[Json]) -> list[SeenReplicaSet]:
        """Its ReplicaSets, oldest first, with those that it is about to adopt."""
        seen = [SeenReplicaSet(each) for each in sets]
        mine = [*self.claim.owned(seen), *self.claim.adoptable(seen)]
        return sorted(mine, key=lambda each: each.age_key)


def part(given: object, total: int, *, up: bool, default: object = "25%") -> int:
    """A number, or a percentage of ``total``."""
    given = default if given is None else given
    if isinstance(given, str) and given.endswith("%"):
        share = int(given[:-1]) * total / 100
        return ceil(share) if up else floor(share)
    return given if isinstance(given, int) else 0


def newest_of(deployment: SeenDeployment, sets: Sequence[SeenReplicaSet]) -> SeenReplicaSet | None:
    """The ReplicaSet that has the Deployment's template."""
    return next((each for each in sets if same_template(each.template, deployment.template)), None)


def same_template(one: Json, other: Json) -> bool:
    return normal_template(without_hash(one)) == normal_template(without_hash(other))
