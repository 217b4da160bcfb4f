"""Give a pod all the devices it asks for, or none: one transaction around its way through the resources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from plugbay.errors import CheckpointNotWritten, StoreUnusable
from plugbay.manager.admission.device_part import DevicePart
from plugbay.manager.admission.topology import PodPart, TopologyManager
from plugbay.manager.admission.transaction import Intents, PodTransaction
from plugbay.manager.crash_points import CrashPoint, passed
from plugbay.manager.endpoints.endpoints import Endpoints
from plugbay.manager.release.releases import Releases
from plugbay.manager.state import ManagerState
from plugbay.manager.store.commits import SaveAssignments
from plugbay.manager.store.store import Store
from plugbay.model.ids import ContainerName
from plugbay.model.requests import PodRequest
from plugbay.ops.changes import Changes
from plugbay.ops.tasks import uninterrupted


class PodAllocation:
    """Gives devices to whole pods, durably. Callers must not hand in the same pod twice at a time.

    Args:
        numa_nodes: the NUMA nodes of the machine.
    """

    def __init__(
        self,
        *,
        topology: TopologyManager,
        state: ManagerState,
        store: Store,
        tasks: asyncio.TaskGroup,
        changes: Changes,
        endpoints: Endpoints,
        releases: Releases,
        numa_nodes: Sequence[int],
    ) -> None:
        self._topology = topology
        self._state = state
        self._store = store
        self._tasks = tasks
        self._changes = changes
        self._releases = releases
        self._part = partial(DevicePart, state=state, endpoints=endpoints, numa_nodes=numa_nodes)

    async def admit(self, pod: PodRequest, running: frozenset[ContainerName], others: Sequence[PodPart]) -> None:
        """Give every container of the pod what it asks for.

        Args:
            running: containers whose process outlived a restart of the node.
            others: what the pod asks of other providers than the device manager.

        Raises:
            AdmissionError: with the kubelet's text; no device stays allocated. What ``others`` gave is the caller's to
                take back.
        """
        async with self._all_or_nothing(pod, running) as devices:
            await self._topology.admit(pod, [*devices, *others])

    async def supply(self, pod: PodRequest) -> None:
        """Give containers of an admitted pod the devices they lack.

        Raises:
            AdmissionError: with the kubelet's text; nothing that was given now stays allocated.
        """
        async with self._all_or_nothing(pod, frozenset()) as devices:
            await self._topology.supply(pod, devices)

    @asynccontextmanager
    async def _all_or_nothing(
        self, pod: PodRequest, running: frozenset[ContainerName]
    ) -> AsyncIterator[Sequence[DevicePart]]:
        """Yield a part for each resource the pod asks for; what they gave is committed at the end of the block."""
        await self._releases.first_attempts(pod.uid)  # Deallocate of devices left by a crash during its admission
        intents = Intents(pod.uid, state=self._state, store=self._store, releases=self._releases)
        transaction = PodTransaction(self._state, intents)
        resources = sorted({name for container in pod.containers for name in container.limits})
        try:
            yield [self._part(name, pod, running, transaction) for name in resources]
        except BaseException:
            self._roll_back(transaction)
            raise
        if not transaction.assignments:
            transaction.apply()
            return
        # Once handed to the store it takes effect; a pod that is to be ended meanwhile must find its devices.
        await uninterrupted(self._tasks, partial(self._commit, transaction))

    async def _commit(self, transaction: PodTransaction) -> None:
        passed(CrashPoint.COMMITTING)
        try:
            await self._store.commit([SaveAssignments(tuple(transaction.assignments)), transaction.intents.committed()])
        except StoreUnusable as error:
            self._roll_back(transaction)
            raise CheckpointNotWritten(error.problem) from error
        transaction.apply()
        passed(CrashPoint.COMMITTED)
        self._changes.notify()

    def _roll_back(self, transaction: PodTransaction) -> None:
        transaction.roll_back()
        if transaction.assignments:
            self._changes.notify()  # the checkpoint may have been written with them
