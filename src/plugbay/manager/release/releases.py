"""PostStopContainer and Deallocate: the calls at the end of a use, from the moment when they become due to their end.

`due` says which calls those are, `queue` in which order they are made, and `calls` makes them; what their outcomes
mean for devices and for starts of containers is decided here. Source: spec 12.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from plugbay.errors import PostStopUnconfirmed, StoreUnusable
from plugbay.manager.config import DEFAULT_LIMITS, Exhaustion, ManagerConfig, Unconfirmed
from plugbay.manager.endpoint import ConnectedPlugins
from plugbay.manager.gates import Gate
from plugbay.manager.release.calls import Outcome, ReleaseCalls, ReleaseCounts
from plugbay.manager.release.due import DueCalls, still_due
from plugbay.manager.release.notices import ReleaseNotices
from plugbay.manager.release.queue import Pending, ReleaseQueue
from plugbay.manager.state import ManagerState
from plugbay.manager.store.commits import Change, DeleteOperations, SaveEnd, SaveOperation, Stored
from plugbay.manager.store.store import Store
from plugbay.model.health import HealthState
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.releases import Operation, OperationId, OperationKind
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock

logger = logging.getLogger(__name__)


class Releases:
    """The manager's calls at the end of a use.

    Attributes:
        due: which calls there are to be made.
        notices: failed calls, for one reader.
    """

    def __init__(
        self,
        config: ManagerConfig,
        *,
        clock: Clock,
        store: Store,
        tasks: asyncio.TaskGroup,
        state: ManagerState,
        changes: Changes,
        connected: ConnectedPlugins,
    ) -> None:
        limits = config.release
        self.due = DueCalls(
            clock=clock, state=state, is_enabled=config.gates.is_enabled(Gate.DEVICE_MANAGER_DEALLOCATE)
        )
        if not self.due.is_enabled and limits != DEFAULT_LIMITS:
            logger.warning("limits of releases have no effect without the feature gate DeviceManagerDeallocate")
        self.notices = ReleaseNotices()
        self._limits = limits
        self._store = store
        self._tasks = tasks
        self._state = state
        self._changes = changes
        self._connected = connected
        self._queue = ReleaseQueue(limits, clock=clock)
        self._calls = ReleaseCalls(
            limits,
            queue=self._queue,
            connected=connected,
            notices=self.notices,
            state=state,
            store=store,
            clock=clock,
        )
        self._quarantine = _Quarantine(state)
        self._working: set[asyncio.Task[None]] = set()
        self._ends: dict[PodUid, dict[ContainerName, str]] = {}
        self._prepared: dict[PodUid, dict[ContainerName, frozenset[ResourceName]]] = {}

    @property
    def counts(self) -> ReleaseCounts:
        return self._calls.counts

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
        remaining = still_due(stored.operations, self._state) if self.due.is_enabled else []
        forgotten = {each.id for each in stored.operations} - {each.id for each in remaining}
        if forgotten:
            logger.warning(
                "forgot %d calls to plugins: such calls are switched off, or the devices are in use again",
                len(forgotten),
            )
            await self._store.commit([DeleteOperations(tuple(forgotten))])
        for (pod, container), instance in stored.ends.items():
            self._ends.setdefault(pod, {})[container] = instance
        self.start(remaining)
        if remaining:
            logger.info("going on with %d calls to plugins", len(remaining))

    async def close(self) -> None:
        """Make no more calls; what is not confirmed is kept for the next start."""
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)

    # --- containers -------------------------------------------------------------------------------------------------

    def prepared(self, pod: PodUid, container: ContainerName, resources: Iterable[ResourceName]) -> None:
        """Note that PreStartContainer was called at the plugins of these resources."""
        self._prepared.setdefault(pod, {})[container] = frozenset(resources)

    def container_ended(self, pod: PodUid, container: ContainerName, instance: str) -> None:
        """Start the calls for a container's newest instance, which is dead. Harmless twice, also over restarts."""
        if self._ends.get(pod, {}).get(container) == instance:
            return
        self._prepared.get(pod, {}).pop(container, None)
        held = {each.resource for each in self._state.of_container(pod, container)}
        operations = self.due.at_end_of_container(pod, container, instance, held)
        if operations:
            self._record_and_start(operations, SaveEnd(pod, container, instance))
            self._ends.setdefault(pod, {})[container] = instance

    def container_not_started(self, pod: PodUid, container: ContainerName) -> None:
        """Start the calls for a container that was prepared, and then not made or not run."""
        prepared = self._prepared.get(pod, {}).pop(container, frozenset())
        self._record_and_start(self.due.at_end_of_container(pod, container, "never started", prepared))

    async def before_start(self, pod: PodUid, container: ContainerName) -> None:
        """Wait for the PostStopContainer of earlier instances that had a device of this container.

        A call that is late is not made any more: it would come after PreStartContainer.

        Raises:
            PostStopUnconfirmed: a call is late, and the start shall fail then. The call goes on.
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
            self.notices.failed(
                each.operation, f"not confirmed within {self._limits.wait_s:g} s; the container starts anyway"
            )
            each.abandon()
        for each in late:
            await each.over.wait()

    # --- pods -------------------------------------------------------------------------------------------------------

    def pod_ends(self, pod: PodUid) -> None:
        """Start the calls for containers of an ending pod that were prepared and are not started any more."""
        for container in tuple(self._prepared.get(pod, {})):
            self.container_not_started(pod, container)

    def start(self, operations: Iterable[Operation]) -> None:
        """Make calls that are recorded already. Devices to be deallocated are out of use from now on."""
        for operation in operations:
            self._enqueue(operation)

    def take_back(self, operation: Operation) -> None:
        """Deallocate devices that were allocated for a pod that was refused; they are out of use from now on."""
        self._record_and_start([operation])

    def forget(self, ids: Collection[OperationId]) -> None:
        """Drop intents whose Allocate gave no devices."""
        if ids:
            self._tasks.create_task(self._forget(tuple(ids)))

    async def _forget(self, ids: tuple[OperationId, ...]) -> None:
        try:
            await self._store.commit([DeleteOperations(ids)])
        except StoreUnusable as error:
            logger.error("cannot forget intents; their devices may be deallocated after a restart: %s", error)

    async def first_attempts(self, pod: PodUid) -> None:
        """Wait until every Deallocate for the pod was tried, as long as the limit says and its plugin is connected."""
        awaited = self._queue.of_pod(pod, OperationKind.DEALLOCATE)
        await self._queue.wait(
            [(each, each.attempted) for each in awaited if self._connected.active(each.operation.resource)]
        )

    def pod_is_gone(self, pod: PodUid) -> None:
        """Keep nothing about a pod but the calls to be made."""
        self._ends.pop(pod, None)
        self._prepared.pop(pod, None)

    # --- plugins ----------------------------------------------------------------------------------------------------

    def plugin_changed(self, resource: ResourceName) -> None:
        """Go on with the resource's calls: another plugin is the active one, or none is."""
        if self._connected.active(resource) is not None:
            self._quarantine.end(resource)
        self._queue.wake(resource)

    def devices_listed(self, resource: ResourceName) -> None:
        """End the quarantine of devices that a new list shows to be healthy again."""
        self._quarantine.look(resource)

    # --- operations -------------------------------------------------------------------------------------------------

    def _record_and_start(self, operations: Sequence[Operation], *also: Change) -> None:
        # All with each: after a crash either all of them are known, or none and not what goes with them.
        records = (*map(SaveOperation, operations), *also)
        for operation in operations:
            self._enqueue(operation, records)

    def _enqueue(self, operation: Operation, records: tuple[Change, ...] = ()) -> None:
        if operation.kind is OperationKind.DEALLOCATE:
            self._state.resource(operation.resource).start_releasing(operation.devices)
            self._changes.notify()
        pending = self._queue.put(operation)
        task = self._tasks.create_task(self._carry_out(pending, records), name=f"{operation.kind.value} {operation.id}")
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _carry_out(self, pending: Pending, records: tuple[Change, ...]) -> None:
        outcome = await self._calls.carry_out(pending, records=records)
        self._queue.remove(pending)
        self._settled(pending.operation, outcome)
        pending.end()

    def _settled(self, operation: Operation, outcome: Outcome) -> None:
        logger.info("%s %s of %s: %s", operation.kind.value, operation.id, operation.resource, outcome.value)
        if operation.kind is OperationKind.POST_STOP:
            return
        if outcome is Outcome.EXHAUSTED and self._limits.on_exhaustion is Exhaustion.QUARANTINE:
            self._quarantine.begin(operation.resource, operation.devices)
        else:
            self._state.resource(operation.resource).end_releasing(operation.devices)
        self._changes.notify()


class _Quarantine:
    """Devices whose Deallocate was given up: they stay out of use until their plugin can be believed again.

    They are among `Resource.releasing`. Nothing is stored: after a restart every plugin registers again.
    """

    def __init__(self, state: ManagerState) -> None:
        self._state = state
        self._was_unhealthy: dict[ResourceName, dict[DeviceId, bool]] = {}

    def begin(self, resource: ResourceName, devices: Iterable[DeviceId]) -> None:
        self._was_unhealthy.setdefault(resource, {}).update(dict.fromkeys(devices, False))
        self.look(resource)

    def end(self, resource: ResourceName) -> None:
        """Give all devices back to a plugin that registered again."""
        self._state.resource(resource).end_releasing(self._was_unhealthy.pop(resource, ()))

    def look(self, name: ResourceName) -> None:
        """Give back the devices that the plugin has called unhealthy and then healthy."""
        held = self._was_unhealthy.get(name, {})
        resource = self._state.resource(name)
        healed = []
        for device_id, was_unhealthy in held.items():
            if resource.health(device_id) is HealthState.UNHEALTHY:
                held[device_id] = True
            elif was_unhealthy and device_id in resource.listed.ranks:
                healed.append(device_id)
        for device_id in healed:
            del held[device_id]
        resource.end_releasing(healed)
