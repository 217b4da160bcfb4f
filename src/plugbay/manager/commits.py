"""What the store of record can be told, and what it holds: values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from plugbay.manager.operations import Operation
from plugbay.manager.state import Assignment
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.releases import OperationId


@dataclass(frozen=True, slots=True)
class SaveAssignments:
    """Record what one admission allocated."""

    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Forget every assignment of a pod, and which of its instances have ended; calls to be made stay."""

    pod: PodUid


@dataclass(frozen=True, slots=True)
class SaveOperation:
    """Record a call to be made, or that it has become another one, or was tried in vain."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class DeleteOperations:
    """Forget calls: they are confirmed, or not to be made."""

    ids: tuple[OperationId, ...]


@dataclass(frozen=True, slots=True)
class SaveEnd:
    """Remember that an instance's PostStopContainer is taken care of; of a container only the last one counts."""

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
    """Remember the resources whose plugin wants PreStartContainer, so that no start after ours goes without it."""

    names: frozenset[ResourceName]


@dataclass(frozen=True, slots=True)
class SaveName:
    """Call the store this."""

    name: str


@dataclass(frozen=True, slots=True)
class SaveViewChecksums:
    """Remember the checksums of the checkpoint files that may be lying there and are ours."""

    checksums: frozenset[int]


@dataclass(frozen=True, slots=True)
class Replace:
    """Forget assignments and resources, and hold these instead; calls to be made stay."""

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
    """What the store holds at start.

    Attributes:
        view_checksums: checksums of the checkpoint files that are ours; any other one is somebody else's.
        operations: calls to be made, in the order in which they were queued.
        ends: the last instance of each container whose PostStopContainer was taken care of.
        name: tells this store from any other, and from itself with another program's assignments in it.
        pre_starts: the resources whose plugin wants PreStartContainer, as far as it has registered with us.
    """

    assignments: tuple[Assignment, ...]
    resources: tuple[ResourceName, ...]
    view_checksums: frozenset[int] = frozenset()
    operations: tuple[Operation, ...] = ()
    ends: Mapping[tuple[PodUid, ContainerName], str] = field(default_factory=dict)
    pre_starts: frozenset[ResourceName] = frozenset()
    name: str = ""
