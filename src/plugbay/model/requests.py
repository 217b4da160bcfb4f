"""A pod's request to a device manager, without the rest of the pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.values import dataclass


class ContainerKind(Enum):
    INIT = "init"
    """Runs to its end before the next container starts; later containers can use its devices again."""
    SIDECAR = "sidecar"
    """An init container with restart policy Always: it lives as long as the pod."""
    APP = "app"


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """The devices one container asks for; ``limits`` holds extended resources only, as whole numbers."""

    name: ContainerName
    kind: ContainerKind
    limits: Mapping[ResourceName, int]


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A pod at admission; ``containers`` in admission order: init containers and sidecars, then app containers."""

    uid: PodUid
    namespace: str
    name: str
    containers: tuple[ContainerRequest, ...]

    def most_at_once(self, resource: ResourceName) -> int:
        """How much of a resource the pod needs at its most demanding moment."""
        return most_at_once((container.kind, container.limits.get(resource, 0)) for container in self.containers)


def most_at_once(needs: Iterable[tuple[ContainerKind, int]]) -> int:
    """How much the containers, in admission order, need at their most demanding moment.

    While an init container runs, the sidecars before it run too; later all sidecars and app containers do.

    Source: Kubernetes 1.36 ``component-helpers/resource/helpers.go``, ``AggregateContainerRequests``.
    """
    peak = sidecars = apps = 0
    for kind, amount in needs:
        match kind:
            case ContainerKind.INIT:
                peak = max(peak, sidecars + amount)
            case ContainerKind.SIDECAR:
                sidecars += amount
            case ContainerKind.APP:
                apps += amount
    return max(peak, sidecars + apps)
