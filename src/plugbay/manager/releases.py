"""PostStopContainer and Deallocate: what becomes due, who waits for it, and which devices stay out of use meanwhile.

`post_stops` knows the instances of containers: at whose end PostStopContainer is due, and who waits for it.

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

from plugbay.errors import StoreUnusable
from plugbay.manager.commits import Change, DeleteOperations, SaveOperation, Stored
from plugbay.manager.config import ManagerConfig
from plugbay.manager.endpoint import Endpoint
from plugbay.manager.gates import Gate
from plugbay.manager.operations import NO_CONTAINER, Operation, OperationKind, is_asked_for
from plugbay.manager.post_stops import PostStops
from plugbay.manager.quarantine import Quarantine
from plugbay.manager.release_counts import ReleaseCounts
from plugbay.manager.release_notices import ReleaseNotice, ReleaseNotices
from plugbay.manager.release_queue import Outcome, ReleaseQueue
from plugbay.manager.release_rules import DEFAULT_LIMITS, Exhaustion
from plugbay.manager.state import Expired, Live, ManagerState, Resource, Stopped
from plugbay.manager.store import Store
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock

logger = logging.getLogger(__name__)


class Releases:
    """The manager's calls at the end of a use. A `release_queue.QueueOwner`.

    Attributes:
        post_stops: those at the end of a container.
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
        self._queue = ReleaseQueue(self, config.release, clock=clock, store=store, tasks=tasks)
        self._quarantine = Quarantine(state)
        self.post_stops = PostStops(self, self._queue, limits=config.release, state=state)
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
        self.post_stops.restore(stored.ends)
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

    async def first_attempts(self, pod: PodUid) -> None:
        """Wait until every Deallocate for the pod was tried, as long as the limit says and its plugin is connected."""
        awaited = self._queue.of_pod(pod, OperationKind.DEALLOCATE)
        await self._queue.wait([(each, each.attempted) for each in awaited if self._active(each.operation.resource)])

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
