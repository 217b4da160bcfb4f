"""PostStopContainer and Deallocate: what becomes due, who waits for it, and which devices stay out of use meanwhile.

Only with the gate ``DeviceManagerDeallocate``, and only for plugins that ask for the calls in their options. Of a
plugin that is not connected the options are not known: what may be wanted is queued, and dropped when it comes back
and does not want it. Source: spec 12.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from plugbay.errors import PostStopUnconfirmed, StoreUnusable
from plugbay.manager.commits import Change, DeleteOperations, SaveEnd, SaveOperation, Stored
from plugbay.manager.config import ManagerConfig
from plugbay.manager.endpoint import Endpoint
from plugbay.manager.gates import Gate
from plugbay.manager.operations import NO_CONTAINER, Operation, OperationKind, is_asked_for
from plugbay.manager.quarantine import Quarantine
from plugbay.manager.release_counts import ReleaseCounts
from plugbay.manager.release_notices import ReleaseNotice, ReleaseNotices
from plugbay.manager.release_queue import Outcome, Pending, ReleaseQueue
from plugbay.manager.release_rules import DEFAULT_LIMITS, Exhaustion, Unconfirmed
from plugbay.manager.state import Expired, Live, ManagerState, Resource, Stopped
from plugbay.manager.store import Store
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock

logger = logging.getLogger(__name__)


class Releases:
    """The manager's calls at the end of a use. A `release_queue.QueueOwner`."""

    def __init__(
        self,
        config: ManagerConfig,
        clock: Clock,
        store: Store,
        tasks: asyncio.TaskGroup,
        state: ManagerState,
        *,
        changes: Changes,
        active: Callable[[ResourceName], Endpoint | None],
    ) -> None:
        self._is_enabled = config.gates.is_enabled(Gate.DEVICE_MANAGER_DEALLOCATE)
        self._limits = config.release
        if not self._is_enabled and self._limits != DEFAULT_LIMITS:
            logger.warning("limits of releases have no effect without the feature gate DeviceManagerDeallocate")
        self._clock = clock
        self._store = store
        self._tasks = tasks
        self._state = state
        self._changes = changes
        self._active = active
        self._queue = ReleaseQueue(self, config.release, clock, store, tasks)
        self._quarantine = Quarantine(state)
        self._ends: dict[PodUid, dict[ContainerName, str]] = {}
        self._prepared: dict[PodUid, dict[ContainerName, frozenset[ResourceName]]] = {}
        self.notices = ReleaseNotices()

    @property
    def counts(self) -> ReleaseCounts:
        return self._queue.counts

    def pending(self) -> Counter[tuple[OperationKind, ResourceName]]:
        """How many calls are still to be confirmed."""
        return self._queue.pending()

    def operations(self) -> tuple[Operation, ...]:
        """The calls that are still to be confirmed, oldest first."""
        return tuple(each.operation for each in self._queue)

    async def restore(self, stored: Stored) -> None:
        """Go on with the calls that were not confirmed before; the assignments are restored already.

        With the gate off they are forgotten.
        """
        remaining = _left_to_do(stored.operations, self._state) if self._is_enabled else []
        forgotten = {each.id for each in stored.operations} - {each.id for each in remaining}
        if forgotten:
            logger.warning("forgot %d calls to plugins that were still to be made", len(forgotten))
            await self._store.commit([DeleteOperations(tuple(forgotten))])
        for (pod, container), instance in stored.ends.items():
            self._ends.setdefault(pod, {})[container] = instance
        for operation in remaining:
            self._enqueue(operation)
        if remaining:
            logger.info("going on with %d calls to plugins", len(remaining))

    async def close(self) -> None:
        """Make no more calls; what is not confirmed is kept for the next start."""
        await self._queue.close()

    # --- while a pod is admitted ------------------------------------------------------------------------------------

    def is_wanted(self, resource: Resource, kind: OperationKind) -> bool:
        """Whether the resource's plugin wants such calls, as far as that is known; if not, it may."""
        if not self._is_enabled:
            return False
        match resource.endpoint:
            case Live(options=options) | Stopped(options=options) | Expired(options=options) if options is not None:
                return is_asked_for(kind, options)
            case _:
                return True

    def new_operation(
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

    def take_back(self, operation: Operation) -> None:
        """Have devices deallocated that were allocated for a pod in vain; out of use from now on."""
        self._enqueue(operation, first=[SaveOperation(operation)])

    def forget(self, ids: Collection[OperationId]) -> None:
        """Drop intents of which nothing came."""
        if ids:
            self._tasks.create_task(self._forget(tuple(ids)))

    async def _forget(self, ids: tuple[OperationId, ...]) -> None:
        try:
            await self._store.commit([DeleteOperations(ids)])
        except StoreUnusable as error:
            logger.error("cannot forget intents: %s", error)  # at worst they are deallocated after a restart

    # --- while its containers run -----------------------------------------------------------------------------------

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
            self.new_operation(
                OperationKind.POST_STOP, held.resource, held.devices, pod, container=container, instance=instance
            )
            for held in self._state.of_container(pod, container)
            if held.resource in resources
            and self.is_wanted(self._state.resource(held.resource), OperationKind.POST_STOP)
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
        late = await self._wait([(each, each.over) for each in awaited])
        if late and self._limits.on_unconfirmed is Unconfirmed.FAIL:
            raise PostStopUnconfirmed(late[0].operation.resource, late[0].operation.container)
        for each in late:
            self.failed(each.operation, f"not confirmed within {self._limits.wait_s:g} s; the container starts anyway")
            each.abandon()
        for each in late:
            await each.over.wait()

    # --- when it has ended ------------------------------------------------------------------------------------------

    def of_ended_pod(self, pod: PodUid, reason: ReleaseReason) -> list[Operation]:
        """The calls that are due when a pod ends, one for each resource; see `start`."""
        devices: dict[ResourceName, set[DeviceId]] = {}
        for item in self._state.of_pod(pod):
            devices.setdefault(item.resource, set()).update(item.devices)
        return [
            self.new_operation(OperationKind.DEALLOCATE, name, ids, pod, reason=reason)
            for name, ids in sorted(devices.items())
            if self.is_wanted(self._state.resource(name), OperationKind.DEALLOCATE)
        ]

    def start(self, operations: Iterable[Operation]) -> None:
        """Make calls that are recorded already. Their devices are out of use from now on."""
        for operation in operations:
            self._enqueue(operation)

    def pod_is_gone(self, pod: PodUid) -> None:
        """Nothing of a pod is kept but the calls to be made."""
        self._ends.pop(pod, None)
        self._prepared.pop(pod, None)

    async def first_attempts(self, pod: PodUid) -> None:
        """Wait until every Deallocate for the pod was tried, as long as the limit says and its plugin is connected."""
        awaited = self._queue.of_pod(pod, OperationKind.DEALLOCATE)
        await self._wait([(each, each.attempted) for each in awaited if self._active(each.operation.resource)])

    async def _wait(self, awaited: Collection[tuple[Pending, asyncio.Event]]) -> list[Pending]:
        """Wait for the events, all together no longer than the limit; what has not happened by then."""
        if awaited and self._limits.wait_s:
            async with asyncio.TaskGroup() as tasks:
                limit = tasks.create_task(self._clock.sleep(self._limits.wait_s))
                waits = [tasks.create_task(event.wait()) for _, event in awaited]
                happened = tasks.create_task(_all(waits))
                await asyncio.wait((limit, happened), return_when=asyncio.FIRST_COMPLETED)
                for task in (limit, happened, *waits):
                    task.cancel()
        return [each for each, event in awaited if not event.is_set()]

    # --- plugins ----------------------------------------------------------------------------------------------------

    def plugin_changed(self, resource: ResourceName) -> None:
        """Another plugin is the active one, or none is."""
        if self._active(resource) is not None:
            self._quarantine.end(resource)
        self._queue.wake(resource)

    def devices_listed(self, resource: ResourceName) -> None:
        """The plugin has sent a list."""
        self._quarantine.look(resource)

    # --- for the queue ----------------------------------------------------------------------------------------------

    def active(self, resource: ResourceName) -> Endpoint | None:
        return self._active(resource)

    def failed(self, operation: Operation, problem: str) -> None:
        message = f"{operation.kind.value} of {operation.resource} for {', '.join(operation.devices)}: {problem}"
        logger.warning("pod %s, container %s: %s", operation.pod, operation.container or "all", message)
        self.notices.put(ReleaseNotice(operation.pod, operation.container, operation.kind, message))

    def unsupported(self, operation: Operation, endpoint: Endpoint) -> None:
        if not is_asked_for(operation.kind, endpoint.options):
            return  # a call beside this one has learned it before
        logger.warning("plugin of %s asks for %s and has no such method", operation.resource, operation.kind.value)
        match operation.kind:
            case OperationKind.POST_STOP:
                endpoint.options = replace(endpoint.options, post_stop_required=False)
            case OperationKind.DEALLOCATE:
                endpoint.options = replace(endpoint.options, deallocate_required=False)
        resource = self._state.resource(operation.resource)
        if self._active(operation.resource) is endpoint and isinstance(resource.endpoint, Live):
            resource.endpoint = replace(resource.endpoint, options=endpoint.options)
        self._queue.wake(operation.resource)

    def settled(self, operation: Operation, outcome: Outcome) -> None:
        logger.info("%s %s of %s: %s", operation.kind.value, operation.id, operation.resource, outcome.value)
        if operation.kind is OperationKind.POST_STOP:
            return
        if outcome is Outcome.EXHAUSTED and self._limits.on_exhaustion is Exhaustion.QUARANTINE:
            self._quarantine.begin(operation.resource, operation.devices)
        else:
            self._state.resource(operation.resource).end_releasing(operation.devices)
        self._changes.notify()

    def _enqueue(self, operation: Operation, *, first: Iterable[Change] = ()) -> None:
        if operation.kind is OperationKind.DEALLOCATE:
            self._state.resource(operation.resource).start_releasing(operation.devices)
            self._changes.notify()
        self._queue.put(operation, first=first)


async def _all(waits: Iterable[asyncio.Task[object]]) -> None:
    for each in waits:
        await each


def _left_to_do(operations: Iterable[Operation], state: ManagerState) -> list[Operation]:
    """Without devices that others have been given since, by a kubelet that ran in between."""
    holders = {(item.resource, id): item.pod for item in state.assignments() for id in item.devices}
    remaining = []
    for operation in operations:
        user = operation.pod if operation.kind is OperationKind.POST_STOP else None
        kept = tuple(id for id in operation.devices if holders.get((operation.resource, id)) in (None, user))
        if kept:
            remaining.append(replace(operation, devices=kept))
    return remaining
