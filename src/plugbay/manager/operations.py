"""PostStopContainer and Deallocate as things to be done: pure values.

Source: spec 12.5, 12.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final

from plugbay.model.devices import PluginOptions
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.releases import OperationId, ReleaseReason

NO_CONTAINER: Final = ContainerName("")


class OperationKind(Enum):
    """Named as the call."""

    POST_STOP = "PostStopContainer"
    DEALLOCATE = "Deallocate"


@dataclass(frozen=True, slots=True)
class Operation:
    """One call that a plugin has to confirm, however often it takes.

    Attributes:
        id: the same in every repeat.
        devices: all of the resource that it is about, sorted.
        due: when it became due, for the limit on its age.
        container, instance: of PostStopContainer: which container ended, and which instance of it.
        reason: of Deallocate.
        attempts: calls that were answered with an error, or not at all.
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
