"""A pod as controllers see it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar, cast

from plugbay.documents import Json
from plugbay.manifest.owners import V1OwnerReference, owners_of
from plugbay.model.owners import OwnerReference, controller_of
from plugbay.model.selectors import Selector, selects
from plugbay.pods.status import PodPhase
from plugbay.printers import v1
from plugbay.values import dataclass

_OVER: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


@dataclass(frozen=True, slots=True)
class SeenPod:
    """The part of a pod that controllers decide by.

    Attributes:
        ready_since: None while it is not ready.
        ended_at: the moment at which it ended, as far as its status tells; its creation while it lives.
        restarts: of all its containers.
        exit_codes: of the containers that have ended.
        conditions: type and status of each.
    """

    namespace: str
    name: str
    uid: str
    created_at: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    phase: PodPhase = PodPhase.PENDING
    ready_since: datetime | None = None
    ended_at: datetime | None = None
    is_bound: bool = False
    is_deleting: bool = False
    restarts: int = 0
    exit_codes: Mapping[str, int] = field(default_factory=dict)
    conditions: frozenset[tuple[str, str]] = frozenset()

    @property
    def is_over(self) -> bool:
        return self.phase in _OVER

    @property
    def is_active(self) -> bool:
        """Whether it counts as a replica: it has not ended, and is not being deleted."""
        return not self.is_over and not self.is_deleting

    def is_available(self, min_ready_s: int, now: datetime) -> bool:
        """Whether it has been ready for ``min_ready_s``."""
        return self.ready_since is not None and self.ready_since + timedelta(seconds=min_ready_s) <= now


def seen_pod(value: Json) -> SeenPod:
    """``value`` is a v1 Pod."""
    conditions = v1.objects(value, "status", "conditions")
    statuses = [
        *v1.objects(value, "status", "initContainerStatuses"),
        *v1.objects(value, "status", "containerStatuses"),
    ]
    ends = [end for each in statuses if (end := v1.mapping(each, "state", "terminated"))]
    created_at = v1.moment(value, "metadata", "creationTimestamp") or datetime.min
    moments = [v1.moment(end, "finishedAt") for end in ends] + [v1.moment(value, "status", "startTime")]
    return SeenPod(
        v1.namespace(value),
        v1.name(value),
        v1.uid(value),
        created_at,
        labels=labels_of(value),
        annotations=annotations_of(value),
        owners=owner_references(value),
        finalizers=tuple(v1.texts(value, "metadata", "finalizers")),
        phase=PodPhase(v1.text(value, "status", "phase")),
        ready_since=_ready_since(conditions),
        ended_at=max([moment for moment in moments if moment], default=created_at),
        is_bound=bool(v1.text(value, "spec", "nodeName")),
        is_deleting=v1.moment(value, "metadata", "deletionTimestamp") is not None,
        restarts=sum(v1.number(each, "restartCount") for each in statuses),
        exit_codes={
            v1.text(each, "name"): v1.number(each, "state", "terminated", "exitCode")
            for each in statuses
            if v1.mapping(each, "state", "terminated")
        },
        conditions=frozenset((v1.text(each, "type"), v1.text(each, "status")) for each in conditions),
    )


def _ready_since(conditions: Iterable[Json]) -> datetime | None:
    ready = (each for each in conditions if each.get("type") == "Ready" and each.get("status") == "True")
    return next((v1.moment(each, "lastTransitionTime") for each in ready), None)


def labels_of(value: Json) -> dict[str, str]:
    return {key: str(text) for key, text in v1.mapping(value, "metadata", "labels").items()}


def annotations_of(value: Json) -> dict[str, str]:
    return {key: str(text) for key, text in v1.mapping(value, "metadata", "annotations").items()}


def owner_references(value: Json) -> tuple[OwnerReference, ...]:
    """``metadata.ownerReferences`` of any object."""
    return owners_of(cast("list[V1OwnerReference]", v1.objects(value, "metadata", "ownerReferences")))


# --- which of them belong to a controller ---------------------------------------------------------------------------


class Claimable(Protocol):
    """A pod, or a ReplicaSet."""

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def owners(self) -> tuple[OwnerReference, ...]: ...

    @property
    def is_deleting(self) -> bool: ...


Child = TypeVar("Child", bound=Claimable)


@dataclass(frozen=True, slots=True)
class Claim:
    """A controller's claim to children in its namespace: those that its selector selects and no other has."""

    uid: str
    selector: Selector
    is_deleting: bool = False

    def owned(self, children: Iterable[Child]) -> list[Child]:
        """The children that it controls and goes on to control."""
        return [each for each in children if self._controls(each) and selects(self.selector, each.labels)]

    def adoptable(self, children: Iterable[Child]) -> list[Child]:
        """The children without a controller that it takes."""
        if self.is_deleting:
            return []
        free = (each for each in children if controller_of(each.owners) is None and not each.is_deleting)
        return [each for each in free if selects(self.selector, each.labels)]

    def released(self, children: Iterable[Child]) -> list[Child]:
        """The children that it controls and does not select any more."""
        if self.is_deleting:
            return []
        return [each for each in children if self._controls(each) and not selects(self.selector, each.labels)]

    def _controls(self, child: Claimable) -> bool:
        controller = controller_of(child.owners)
        return controller is not None and controller.uid == self.uid


# --- which of them go first -----------------------------------------------------------------------------------------


def first_to_delete(pods: Iterable[SeenPod]) -> list[SeenPod]:
    """The order in which surplus pods are deleted: those without a place, pending, not ready, cheap and young first.

    Source: Kubernetes 1.36 ``pkg/controller/controller_utils.go``, ``ActivePodsWithRanks``.
    """
    return sorted(pods, key=_worth)


def _worth(pod: SeenPod) -> tuple[object, ...]:
    ready = pod.ready_since
    return (
        pod.is_bound,
        pod.phase is not PodPhase.PENDING,
        ready is not None,
        _deletion_cost(pod),
        -ready.timestamp() if ready else 0.0,
        -pod.restarts,
        -pod.created_at.timestamp(),
        pod.name,
    )


def _deletion_cost(pod: SeenPod) -> int:
    try:
        return int(pod.annotations.get(_COST, "0"))
    except ValueError:
        return 0


def until_available_s(pods: Iterable[SeenPod], min_ready_s: int, now: datetime) -> float | None:
    """The seconds until the next ready pod is available; None if there is none to wait for."""
    moments = [each.ready_since + timedelta(seconds=min_ready_s) for each in pods if each.ready_since is not None]
    return min([(moment - now).total_seconds() for moment in moments if moment > now], default=None)
