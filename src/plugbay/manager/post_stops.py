"""PostStopContainer: at the end of which instances it is due, and who waits for it before a start.

Source: spec 12.5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from plugbay.errors import PostStopUnconfirmed
from plugbay.manager.commits import Change, SaveEnd, SaveOperation
from plugbay.manager.operations import Operation, OperationKind
from plugbay.manager.release_queue import ReleaseQueue
from plugbay.manager.release_rules import ReleaseLimits, Unconfirmed
from plugbay.manager.state import ManagerState, Resource
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName


class PostStopOwner(Protocol):
    """Who has them made."""

    def is_wanted(self, resource: Resource, kind: OperationKind) -> bool:
        """Whether the resource's plugin wants such calls, as far as that is known; if not, it may."""
        ...

    def new_operation(
        self,
        kind: OperationKind,
        resource: ResourceName,
        devices: Iterable[DeviceId],
        pod: PodUid,
        *,
        container: ContainerName,
        instance: str,
    ) -> Operation:
        """A call that becomes due now."""
        ...

    def failed(self, operation: Operation, problem: str) -> None:
        """A call is given up."""
        ...


class PostStops:
    """The instances of containers, as far as calls about them are due."""

    def __init__(
        self, owner: PostStopOwner, queue: ReleaseQueue, *, limits: ReleaseLimits, state: ManagerState
    ) -> None:
        self._owner = owner
        self._queue = queue
        self._limits = limits
        self._state = state
        self._ends: dict[PodUid, dict[ContainerName, str]] = {}
        self._prepared: dict[PodUid, dict[ContainerName, frozenset[ResourceName]]] = {}

    def restore(self, ends: Mapping[tuple[PodUid, ContainerName], str]) -> None:
        """Take up which instances were taken care of."""
        for (pod, container), instance in ends.items():
            self._ends.setdefault(pod, {})[container] = instance

    def prepared(self, pod: PodUid, container: ContainerName, resources: Iterable[ResourceName]) -> None:
        """PreStartContainer was called at the plugins of these resources."""
        self._prepared.setdefault(pod, {})[container] = frozenset(resources)

    def container_ended(self, pod: PodUid, container: ContainerName, instance: str) -> None:
        """An instance's process is dead. Harmless twice, also over restarts; the newest instance only."""
        if self._ends.get(pod, {}).get(container) == instance:
            return
        self._prepared.get(pod, {}).pop(container, None)
        held = {each.resource for each in self._state.of_container(pod, container)}
        if self._post_stop(pod, container, held, instance, SaveEnd(pod, container, instance)):
            self._ends.setdefault(pod, {})[container] = instance

    def container_not_started(self, pod: PodUid, container: ContainerName) -> None:
        """A container was not made, or did not run, after all was prepared for it."""
        prepared = self._prepared.get(pod, {}).pop(container, frozenset())
        self._post_stop(pod, container, prepared, "never started")

    def prepared_in_vain(self, pod: PodUid) -> None:
        """A pod ends; of its containers some may have been prepared and not started any more."""
        for container in tuple(self._prepared.get(pod, {})):
            self.container_not_started(pod, container)

    def _post_stop(
        self,
        pod: PodUid,
        container: ContainerName,
        resources: Collection[ResourceName],
        instance: str,
        *also: Change,
    ) -> bool:
        """Queue the calls about an instance; whether there are any."""
        operations = [
            self._owner.new_operation(
                OperationKind.POST_STOP, held.resource, held.devices, pod, container=container, instance=instance
            )
            for held in self._state.of_container(pod, container)
            if held.resource in resources
            and self._owner.is_wanted(self._state.resource(held.resource), OperationKind.POST_STOP)
        ]
        # All with each: after a crash the instance counts as taken care of, or not.
        records = [*map(SaveOperation, operations), *also]
        for operation in operations:
            self._queue.put(operation, first=records)
        return bool(operations)

    async def before_start(self, pod: PodUid, container: ContainerName) -> None:
        """Wait for the PostStopContainer of earlier instances that had a device of this container.

        What is late is not made any more: it would come after PreStartContainer.

        Raises:
            PostStopUnconfirmed: one is late, and the start shall fail then. It goes on.
        """
        under_way = self._queue.of_pod(pod, OperationKind.POST_STOP)
        if not under_way:
            return
        wanted = {(item.resource, id) for item in self._state.of_container(pod, container) for id in item.devices}
        awaited = [
            each for each in under_way if any((each.operation.resource, id) in wanted for id in each.operation.devices)
        ]
        late = await self._queue.wait([(each, each.over) for each in awaited])
        if late and self._limits.on_unconfirmed is Unconfirmed.FAIL:
            raise PostStopUnconfirmed(late[0].operation.resource, late[0].operation.container)
        for each in late:
            self._owner.failed(
                each.operation, f"not confirmed within {self._limits.wait_s:g} s; the container starts anyway"
            )
            each.abandon()
        for each in late:
            await each.over.wait()

    def pod_is_gone(self, pod: PodUid) -> None:
        """Nothing of a pod is kept but the calls to be made."""
        self._ends.pop(pod, None)
        self._prepared.pop(pod, None)
