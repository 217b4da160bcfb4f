"""All the devices that a pod asks for, or none: the transaction around its way through the resources."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from plugbay.errors import CheckpointNotWritten, StoreUnusable
from plugbay.manager.commits import SaveAssignments
from plugbay.manager.device_part import DevicePart
from plugbay.manager.effects import Effect, passed
from plugbay.manager.endpoints import Endpoints
from plugbay.manager.intents import Intents
from plugbay.manager.releases import Releases
from plugbay.manager.state import ManagerState
from plugbay.manager.store import Store
from plugbay.manager.transaction import PodTransaction
from plugbay.model.ids import ContainerName
from plugbay.model.requests import PodRequest
from plugbay.ops.changes import Changes
from plugbay.ops.tasks import uninterrupted

Way = Callable[[Sequence[DevicePart]], Awaitable[None]]
"""Takes a pod through the resources it asks for, and has each container given its devices."""


class PodAllocation:
    """Gives devices to whole pods, durably.

    Args:
        numa_nodes: of the machine.
    """

    def __init__(
        self,
        *,
        state: ManagerState,
        store: Store,
        tasks: asyncio.TaskGroup,
        changes: Changes,
        endpoints: Endpoints,
        releases: Releases,
        numa_nodes: Sequence[int],
    ) -> None:
        self._state = state
        self._store = store
        self._tasks = tasks
        self._changes = changes
        self._releases = releases
        self._part = partial(DevicePart, state=state, endpoints=endpoints, numa_nodes=numa_nodes)

    async def allocate(self, pod: PodRequest, running: frozenset[ContainerName], way: Way) -> None:
        """The caller sees to it that a pod is not here twice at a time.

        Args:
            running: containers whose process outlived a restart of the node.

        Raises:
            AdmissionError: with the kubelet's text; nothing stays allocated.
        """
        await self._releases.first_attempts(pod.uid)  # of its own leftovers, from a crash during its admission
        intents = Intents(pod.uid, state=self._state, store=self._store, releases=self._releases)
        transaction = PodTransaction(self._state, intents)
        resources = sorted({name for container in pod.containers for name in container.limits})
        try:
            await way([self._part(name, pod, running, transaction) for name in resources])
        except BaseException:
            self._roll_back(transaction)
            raise
        if not transaction.assignments:
            transaction.apply()
            return
        # Once it is handed to the store it takes effect, and whoever wants the pod's end has to find it.
        await uninterrupted(self._tasks, partial(self._commit, transaction))

    async def _commit(self, transaction: PodTransaction) -> None:
        passed(Effect.COMMITTING)
        try:
            await self._store.commit([SaveAssignments(tuple(transaction.assignments)), transaction.intents.committed()])
        except StoreUnusable as error:
            self._roll_back(transaction)
            raise CheckpointNotWritten(error.problem) from error
        transaction.apply()
        passed(Effect.COMMITTED)
        self._changes.notify()

    def _roll_back(self, transaction: PodTransaction) -> None:
        transaction.roll_back()
        if transaction.assignments:
            self._changes.notify()  # the checkpoint may have been written with them
