"""Changes to the store of record, and its contents, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from plugbay.manager.state import HeldDevices
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.releases import Operation, OperationId
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class SaveAssignments:
    """Record what one admission allocated."""

    assignments: tuple[HeldDevices, ...]


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Forget every assignment of a pod, and which of its instances have ended; calls to be made stay."""

    pod: PodUid


@dataclass(frozen=True, slots=True)
class SaveOperation:
    """Record a call that is to be made, or its new devices or number of attempts."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class DeleteOperations:
    """Forget calls that are confirmed, or are not to be made."""

    ids: tuple[OperationId, ...]


@dataclass(frozen=True, slots=True)
class SaveEnd:
    """Remember that an instance's PostStopContainer was queued; only the last instance of a container counts."""

    pod: PodUid
    container: ContainerName
    instance: str


@dataclass(frozen=True, slots=True)
class SaveResource:
    """Remember that a plugin registered this resource, so that it is known after a restart."""

    name: ResourceName


@dataclass(frozen=True, slots=True)
class DeleteResource:
    name: ResourceName


@dataclass(frozen=True, slots=True)
class SavePreStarts:
    """Remember the resources whose plugin wants PreStartContainer: after a restart no start may lack the call."""

    names: frozenset[ResourceName]


@dataclass(frozen=True, slots=True)
class SaveName:
    """Give the store a name."""

    name: str


@dataclass(frozen=True, slots=True)
class SaveViewChecksums:
    """Remember the checksums by which a checkpoint file can be recognised as ours."""

    checksums: frozenset[int]


@dataclass(frozen=True, slots=True)
class Replace:
    """Forget assignments, resources and what their plugins want, and hold these instead; calls to be made stay."""

    stored: Stored


Change = (
    SaveAssignments
    | DeletePod
    | SaveOperation
    | DeleteOperations
    | SaveEnd
    | SaveResource
    | DeleteResource
    | SavePreStarts
    | SaveName
    | SaveViewChecksums
    | Replace
)


@dataclass(frozen=True, slots=True)
class Stored:
    """The contents of the store at start.

    Attributes:
        view_checksums: checksums of the checkpoint files that are ours; another program wrote a file with any other.
        operations: calls to be made, in the order in which they were queued.
        ends: the last instance of each container whose PostStopContainer was queued.
        name: distinguishes this store from any other, and from itself before another program's state was imported.
        pre_starts: the resources whose plugin wants PreStartContainer, as far as plugins have registered with us.
    """

    assignments: tuple[HeldDevices, ...]
    resources: tuple[ResourceName, ...]
    view_checksums: frozenset[int] = frozenset()
    operations: tuple[Operation, ...] = ()
    ends: Mapping[tuple[PodUid, ContainerName], str] = field(default_factory=dict)
    pre_starts: frozenset[ResourceName] = frozenset()
    name: str = ""
