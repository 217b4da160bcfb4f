"""The devices that one pod is given, until they are committed or taken back as a whole.

Before each Allocate of a plugin that asks for Deallocate an *intent* is recorded: the Deallocate that is due if nothing
comes of the Allocate. So every device that a plugin may have prepared is deallocated again after a crash, or when the
pod is refused after all. The commit of the admission deletes the intents.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

from plugbay.errors import AllocateFailed, AllocateUnsettled, CheckpointNotWritten, StoreUnusable
from plugbay.manager.crash_points import CrashPoint, passed
from plugbay.manager.release.releases import Releases
from plugbay.manager.state import HeldDevices, ManagerState, Resource
from plugbay.manager.store.commits import DeleteOperations, SaveOperation
from plugbay.manager.store.store import Store
from plugbay.model.ids import DeviceId, PodUid, ResourceName
from plugbay.model.releases import Operation, OperationKind, ReleaseReason


class PodTransaction:
    """The claims and assignments of one pod until they are committed.

    Attributes:
        intents: the intents of the Allocate calls that were made for the pod.
    """

    def __init__(self, state: ManagerState, intents: Intents) -> None:
        self._state = state
        self.intents = intents
        self._claims: list[tuple[Resource, tuple[DeviceId, ...]]] = []
        self.assignments: list[HeldDevices] = []
        state.granted.append(self.assignments)

    def claim(self, resource: Resource, devices: tuple[DeviceId, ...]) -> None:
        """Claim ``devices``: no other pod gets them from now on."""
        resource.claim(devices)
        self._claims.append((resource, devices))

    def roll_back(self) -> None:
        """Give the pod nothing, and tell plugins that ask for it to take back what they gave."""
        self.intents.roll_back()  # first: devices to be deallocated must not be free in between
        for resource, devices in self._claims:
            resource.unclaim(devices)
        self._claims.clear()
        self._settled()

    def apply(self) -> None:
        """Make the assignments the pod's own; the claims become theirs."""
        for assignment in self.assignments:
            self._state.assign(assignment)
        self._settled()

    def _settled(self) -> None:
        self._state.granted[:] = [each for each in self._state.granted if each is not self.assignments]


class Intents:
    """The intents of one admission, one for each resource."""

    def __init__(self, pod: PodUid, *, state: ManagerState, store: Store, releases: Releases) -> None:
        self._pod = pod
        self._state = state
        self._store = store
        self._releases = releases
        self._operations: dict[ResourceName, Operation] = {}
        self._asked: dict[ResourceName, frozenset[DeviceId]] = {}

    @asynccontextmanager
    async def allocating(self, resource: Resource, devices: Iterable[DeviceId]) -> AsyncIterator[None]:
        """Record the intent of one Allocate call; the call is made inside the block.

        Raises:
            CheckpointNotWritten: the intent cannot be kept; Allocate must not be called.
        """
        if not self._releases.due.is_wanted(resource, OperationKind.DEALLOCATE):
            yield
            return
        before = self._asked.get(resource.name, frozenset())
        # What the pod has from an earlier admission stays with it whatever becomes of this one.
        asked = before | (frozenset(devices) - self._held(resource.name))
        if asked != before:
            await self._record(resource.name, asked)
        self._asked[resource.name] = asked
        try:
            yield
        except AllocateUnsettled:
            raise
        except AllocateFailed:
            self._asked[resource.name] = before  # the plugin refused: there is nothing to undo
            raise

    def committed(self) -> DeleteOperations:
        """The change that drops the intents; it is part of the admission's commit."""
        return DeleteOperations(tuple(each.id for each in self._operations.values()))

    def roll_back(self) -> None:
        """Ask for a Deallocate of everything that was, or may have been, allocated."""
        in_vain = []
        for name, operation in self._operations.items():
            if devices := self._asked.get(name):
                self._releases.take_back(replace(operation, devices=tuple(sorted(devices))))
            else:
                in_vain.append(operation.id)
        self._releases.forget(in_vain)
        self._operations.clear()

    def _held(self, name: ResourceName) -> frozenset[DeviceId]:
        return frozenset(id for item in self._state.of_pod(self._pod) if item.resource == name for id in item.devices)

    async def _record(self, name: ResourceName, devices: frozenset[DeviceId]) -> None:
        known = self._operations.get(name)
        if known is None:
            known = self._releases.due.deallocate(name, devices, self._pod, ReleaseReason.ADMISSION_FAILED)
        self._operations[name] = replace(known, devices=tuple(sorted(devices)))
        passed(CrashPoint.INTENDING)
        try:
            await self._store.commit([SaveOperation(self._operations[name])])
        except StoreUnusable as error:
            raise CheckpointNotWritten(error.problem) from error
        passed(CrashPoint.INTENDED)
