"""What an admission is about to have allocated, recorded first: so that after a crash, or when the pod is refused
after all, every device that a plugin may have prepared is deallocated again.

An intent is the Deallocate that is due if nothing comes of it, already in the store; the commit of the admission
deletes it. Only for plugins that ask for Deallocate.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

from plugbay.errors import AllocateFailed, AllocateUnsettled, CheckpointNotWritten, StoreUnusable
from plugbay.manager.commits import DeleteOperations, SaveOperation
from plugbay.manager.effects import Effect, passed
from plugbay.manager.operations import Operation, OperationKind
from plugbay.manager.releases import Releases
from plugbay.manager.state import ManagerState, Resource
from plugbay.manager.store import Store
from plugbay.model.ids import DeviceId, PodUid, ResourceName
from plugbay.model.releases import ReleaseReason


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
        """To be entered around each Allocate call.

        Raises:
            CheckpointNotWritten: the intent cannot be kept; Allocate must not be called.
        """
        if not self._releases.is_wanted(resource, OperationKind.DEALLOCATE):
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
            self._asked[resource.name] = before  # refused: there is nothing to be undone
            raise

    def committed(self) -> DeleteOperations:
        """To be part of the admission's commit."""
        return DeleteOperations(tuple(each.id for each in self._operations.values()))

    def roll_back(self) -> None:
        """Have everything deallocated that was, or may have been, allocated."""
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
            reason = ReleaseReason.ADMISSION_FAILED
            known = self._releases.new_operation(OperationKind.DEALLOCATE, name, devices, self._pod, reason=reason)
        self._operations[name] = replace(known, devices=tuple(sorted(devices)))
        passed(Effect.INTENDING)
        try:
            await self._store.commit([SaveOperation(self._operations[name])])
        except StoreUnusable as error:
            raise CheckpointNotWritten(error.problem) from error
        passed(Effect.INTENDED)
