"""Which calls of PostStopContainer and Deallocate become due at the end of a use.

Only with the gate ``DeviceManagerDeallocate``, and only for plugins that ask for the calls in their options. The
options of a plugin that is not connected may be unknown: then the call is due, and it is dropped when the plugin comes
back and does not want it. Source: spec 12.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import replace

from plugbay.manager.state import Expired, Live, ManagerState, Resource, Stopped
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.releases import NO_CONTAINER, Operation, OperationId, OperationKind, ReleaseReason, is_asked_for
from plugbay.ops.clock import Clock


class DueCalls:
    """Makes the operations that are due, for a manager that makes such calls at all.

    Attributes:
        is_enabled: whether the manager makes such calls.
    """

    def __init__(self, *, clock: Clock, state: ManagerState, is_enabled: bool) -> None:
        self.is_enabled = is_enabled
        self._clock = clock
        self._state = state

    def is_wanted(self, resource: Resource, kind: OperationKind) -> bool:
        """Whether the resource's plugin wants such calls, or may want them while its options are unknown."""
        if not self.is_enabled:
            return False
        match resource.endpoint:
            case Live(options=options) | Stopped(options=options) | Expired(options=options) if options is not None:
                return is_asked_for(kind, options)
            case _:
                return True

    def at_end_of_container(
        self, pod: PodUid, container: ContainerName, instance: str, resources: Collection[ResourceName]
    ) -> list[Operation]:
        """The PostStopContainer operations of an instance, one for each of the ``resources`` of its devices."""
        return [
            self._operation(
                OperationKind.POST_STOP, held.resource, held.devices, pod, container=container, instance=instance
            )
            for held in self._state.of_container(pod, container)
            if held.resource in resources
            and self.is_wanted(self._state.resource(held.resource), OperationKind.POST_STOP)
        ]

    def at_end_of_pod(self, pod: PodUid, reason: ReleaseReason) -> list[Operation]:
        """Deallocate, one for each resource that the pod has devices of."""
        devices: dict[ResourceName, set[DeviceId]] = {}
        for item in self._state.of_pod(pod):
            devices.setdefault(item.resource, set()).update(item.devices)
        return [
            self.deallocate(name, ids, pod, reason)
            for name, ids in sorted(devices.items())
            if self.is_wanted(self._state.resource(name), OperationKind.DEALLOCATE)
        ]

    def deallocate(
        self, resource: ResourceName, devices: Iterable[DeviceId], pod: PodUid, reason: ReleaseReason
    ) -> Operation:
        """A Deallocate that is due from now on."""
        return self._operation(OperationKind.DEALLOCATE, resource, devices, pod, reason=reason)

    def _operation(
        self,
        kind: OperationKind,
        resource: ResourceName,
        devices: Iterable[DeviceId],
        pod: PodUid,
        *,
        container: ContainerName = NO_CONTAINER,
        instance: str = "",
        reason: ReleaseReason = ReleaseReason.UNSPECIFIED,
    ) -> Operation:
        return Operation(
            OperationId(str(uuid.uuid4())),
            kind,
            resource,
            tuple(sorted(devices)),
            pod,
            self._clock.now(),
            container=container,
            instance=instance,
            reason=reason,
        )


def still_due(operations: Iterable[Operation], state: ManagerState) -> list[Operation]:
    """``operations`` without the devices that other pods have been given since, by a kubelet that ran in between."""
    holders = {(item.resource, id): item.pod for item in state.assignments() for id in item.devices}
    remaining = []
    for operation in operations:
        user = operation.pod if operation.kind is OperationKind.POST_STOP else None
        kept = tuple(id for id in operation.devices if holders.get((operation.resource, id)) in (None, user))
        if kept:
            remaining.append(replace(operation, devices=kept))
    return remaining
