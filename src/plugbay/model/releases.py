"""The calls that tell a plugin that a use of its devices has ended: PostStopContainer and Deallocate, as values.

Source: spec 12.4, 12.5, 12.6.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from enum import Enum
from typing import Final, NewType

from plugbay.model.devices import PluginOptions
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.values import dataclass

OperationId = NewType("OperationId", str)
"""Names one PostStopContainer or Deallocate: the same in every repeat, never used again for another call. It is
empty when the manager did not send it."""
NO_CONTAINER: Final = ContainerName("")


class OperationKind(Enum):
    """The call; the value is its name in the protocol."""

    POST_STOP = "PostStopContainer"
    DEALLOCATE = "Deallocate"


class ReleaseReason(Enum):
    """Why devices are deallocated."""

    UNSPECIFIED = "unspecified"
    POD_ENDED = "pod ended"
    ADMISSION_FAILED = "admission failed"
    """The devices were, or may have been, allocated for a pod that was refused after all."""
    ORPHANED = "orphaned"
    """The pod went away while no manager ran."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call that a plugin has to confirm, however many attempts it takes.

    Attributes:
        id: the same in every repeat.
        devices: all devices of the resource that the call is about, sorted.
        due: when the call became due, for the limit on its age.
        container, instance: for PostStopContainer: which container ended, and which instance of it.
        reason: for Deallocate.
        attempts: number of calls that were answered with an error, or not at all.
    """

    id: OperationId
    kind: OperationKind
    resource: ResourceName
    devices: tuple[DeviceId, ...]
    pod: PodUid
    due: datetime
    container: ContainerName = NO_CONTAINER
    instance: str = ""
    reason: ReleaseReason = ReleaseReason.UNSPECIFIED
    attempts: int = 0


def is_asked_for(kind: OperationKind, options: PluginOptions) -> bool:
    """Whether a plugin with these options wants to be called."""
    match kind:
        case OperationKind.POST_STOP:
            return options.post_stop_required
        case OperationKind.DEALLOCATE:
            return options.deallocate_required


def without(kind: OperationKind, options: PluginOptions) -> PluginOptions:
    """``options`` of a plugin that turned out to lack the method."""
    match kind:
        case OperationKind.POST_STOP:
            return replace(options, post_stop_required=False)
        case OperationKind.DEALLOCATE:
            return replace(options, deallocate_required=False)
