"""The Device Manager: registrations and lists in, devices for pods out.

Order of effects for one pod, which is the promise about crashes: choose, Allocate at the plugin, commit to the store,
answer; its view in the checkpoint file follows. A crash before the commit leaves nothing assigned; after it,
everything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from enum import Enum

from plugbay.allocation.choose import plan, settle
from plugbay.allocation.table import NO_DEVICES
from plugbay.errors import (
    CheckpointNotWritten,
    EndpointNotFound,
    EndpointStopped,
    PathUnusable,
    PreStartFailed,
    StoreUnusable,
    UnknownEndpoint,
)
from plugbay.manager import snapshot
from plugbay.manager.admission import ReuseList, Wish, missing_devices, wishes
from plugbay.manager.config import ManagerConfig
from plugbay.manager.endpoint import Endpoint
from plugbay.manager.endpoints import Endpoints
from plugbay.manager.foreign import settle_checkpoint
from plugbay.manager.gates import Gate
from plugbay.manager.health import DevicesHealth, health_of
from plugbay.manager.lanes import Lanes
from plugbay.manager.podresources import AdmittedPods
from plugbay.manager.podresources_reader import PodResourcesReader
from plugbay.manager.registration import prepare_directory
from plugbay.manager.rendering import Holdings
from plugbay.manager.snapshot import ResourceCount, Snapshot
from plugbay.manager.state import (
    NO_NUMA_NODE,
    Assignment,
    Expired,
    ManagerState,
    Resource,
    Restored,
    Stopped,
)
from plugbay.manager.store import DeletePod, SaveAssignments, Store, Stored, open_store
from plugbay.manager.view import holdings_of, open_view
from plugbay.manager.watcher import make_directory, run_watcher
from plugbay.model.edits import ContainerEdits, merge_resources
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.requests import PodRequest
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.wire.convert import decode_edits
from plugbay.wire.registration import registration_handler
from plugbay.wire.transport import check_socket_path, serve_grpc

logger = logging.getLogger(__name__)


class Effect(Enum):
    """The points between which a crash is told apart; logged at debug level when they are passed."""

    ALLOCATING = "before Allocate"
    ALLOCATED = "after Allocate"
    COMMITTING = "before commit"
    COMMITTED = "after commit"
    ANSWERING = "before answer"
    RELEASING = "before release"
    RELEASED = "after release"


@asynccontextmanager
async def run_manager(config: ManagerConfig, *, clock: Clock) -> AsyncIterator[DeviceManager]:
    """A manager that serves registration until the block ends. What it stored before is taken up again.

    Raises:
        StoreUnusable: see `open_store`.
        CheckpointNotOurs, PathUnusable: see `settle_checkpoint`.
        PathTooLong, PathUnusable: the registration socket cannot be served, a directory not be made, or the root is
            a relative path.
    """
    check_socket_path(config.paths.registration_socket)
    if not config.paths.root.is_absolute():
        raise PathUnusable(str(config.paths.registration_socket), "bad socketPath, must be an absolute path")
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(config.store))
        stored = await settle_checkpoint(config, store, await asyncio.to_thread(store.load), clock.now())
        await asyncio.to_thread(prepare_directory, config.paths.device_plugins)
        await asyncio.to_thread(make_directory, config.paths.plugins_registry)
        tasks = asyncio.TaskGroup()
        manager = DeviceManager(config, clock, store, tasks)
        # Entered before the tasks, and so written for the last time when nothing can change any more.
        view = await stack.enter_async_context(
            open_view(
                config.paths.checkpoint,
                store=store,
                clock=clock,
                holdings=manager.holdings,
                known=stored.view_checksums,
            )
        )
        await stack.enter_async_context(tasks)
        manager.endpoints.restore(stored.resources)
        manager.restore(stored)
        stack.push_async_callback(manager.endpoints.close)  # runs after registration has stopped
        await stack.enter_async_context(
            serve_grpc(config.paths.registration_socket, [registration_handler(manager.endpoints.register)])
        )
        await stack.enter_async_context(run_watcher(config.paths.plugins_registry, manager.endpoints, clock=clock))
        # Only now: a manager that could not start must leave the file as it was.
        stack.callback(view.start(manager.changes(), tasks).cancel)
        yield manager


class DeviceManager:
    """Made by `run_manager`. Its methods may be called from one event loop only.

    Attributes:
        admitted_pods: the pods admitted since the manager runs and not released, for `serve_pod_resources`.
    """

    def __init__(self, config: ManagerConfig, clock: Clock, store: Store, tasks: asyncio.TaskGroup) -> None:
        self._state = ManagerState()
        self._store = store
        self._tasks = tasks
        self._gates = config.gates
        self._changes = Changes()
        self._lanes = Lanes()
        self.admitted_pods = AdmittedPods()
        self.endpoints = Endpoints(config, clock, store, tasks, self._state, self._changes)

    # --- pods -------------------------------------------------------------------------------------------------------

    async def admit(self, pod: PodRequest, *, running: Collection[ContainerName] = ()) -> None:
        """Give every container of the pod its devices, or none at all. Harmless for a pod that has them.

        Args:
            running: containers whose process outlived a restart of the node; what they hold they keep.

        Raises:
            AdmissionError: with the kubelet's text; nothing stays allocated.
        """
        async with self._lanes.enter(pod.uid):
            await self._give_devices(pod, frozenset(running))
            self.admitted_pods.add(pod)
            _passed(Effect.ANSWERING)

    async def prepare_container(self, pod: PodUid, container: ContainerName) -> ContainerEdits:
        """What a container gets, after PreStartContainer at the plugins that ask for it. Call before every start.

        A container that was running when the node started, with devices that nobody knew of, gets its devices here.

        Raises:
            AdmissionError: a plugin refused or is gone; try again later.
        """
        if self._lacking(pod, container) is not None:
            async with self._lanes.enter(pod):
                if (request := self._lacking(pod, container)) is not None:
                    await self._give_devices(request, frozenset())
        for assignment in self._state.of_container(pod, container):
            await self._pre_start(assignment)
        return self.edits(pod, container)

    def edits(self, pod: PodUid, container: ContainerName) -> ContainerEdits:
        """What a container gets from all its devices; on conflict the first resource name wins."""
        return merge_resources(decode_edits(item.response) for item in self._state.of_container(pod, container))

    async def release_pod(self, pod: PodUid) -> None:
        """The pod has ended and its processes are gone: its devices are free, durably. Harmless twice.

        Raises:
            StoreUnusable: nothing is released.
        """
        async with self._lanes.enter(pod):
            if pod in self._state.pods():
                _passed(Effect.RELEASING)
                await self._store.commit([DeletePod(pod)])  # first, or a crash could leave a device with two owners
                self._state.remove_pod(pod)
                _passed(Effect.RELEASED)
                logger.info("released the devices of pod %s", pod)
                self._changes.notify()
            self.admitted_pods.remove(pod)

    # --- onlookers --------------------------------------------------------------------------------------------------

    def devices_of(self, pod: PodUid) -> Mapping[ContainerName, Mapping[ResourceName, tuple[DeviceId, ...]]]:
        held: dict[ContainerName, dict[ResourceName, tuple[DeviceId, ...]]] = {}
        for item in self._state.of_pod(pod):
            held.setdefault(item.container, {})[item.resource] = tuple(sorted(item.devices))
        return held

    def awaited_plugins(self) -> frozenset[ResourceName]:
        """Resources known from before our start whose plugin has sent no list yet."""
        return frozenset(name for name, resource in self._state.resources.items() if resource.table is NO_DEVICES)

    def assigned_pods(self) -> frozenset[PodUid]:
        """Pods that hold devices."""
        return self._state.pods()

    def resources(self) -> Mapping[ResourceName, ResourceCount]:
        """Counts for the node object. A resource whose plugin stayed away stays, with zeros, as on a kubelet."""
        return {name: snapshot.count(resource) for name, resource in self._state.resources.items()}

    def health_of(self, pod: PodUid) -> DevicesHealth:
        """For the pod's status; nothing when the gate ``ResourceHealthStatus`` is off."""
        return health_of(self._state, pod) if self._gates.is_enabled(Gate.RESOURCE_HEALTH_STATUS) else {}

    def health_notices(self) -> AsyncIterator[frozenset[PodUid]]:
        """Pods whose `health_of` may have become another, as it happens; for one reader."""
        return aiter(self.endpoints.health_notices)

    def snapshot(self) -> Snapshot:
        return snapshot.take(self._state)

    def pod_resources(self) -> PodResourcesReader:
        """What `plugbay.manager.podresources.serve_pod_resources` tells, beside the pods to tell it of."""
        return PodResourcesReader(self._state)

    def holdings(self) -> Holdings:
        """What a checkpoint says of the present state."""
        return holdings_of(self._state)

    def changes(self) -> AsyncIterator[None]:
        """One item at once, then one after each change of devices, plugins or assignments, or burst of changes."""
        return aiter(self._changes)

    def restore(self, stored: Stored) -> None:
        """Take up what the store holds; called once, before anything else."""
        for assignment in stored.assignments:
            self._state.restore(assignment)
        if stored.assignments or stored.resources:
            logger.info("restored %d assignments, %d resources", len(stored.assignments), len(stored.resources))

    # --- effects ----------------------------------------------------------------------------------------------------

    async def _give_devices(self, pod: PodRequest, running: frozenset[ContainerName]) -> None:
        """All of them, or none; the caller holds the pod's lane."""
        admission = _Admission(self._state)
        try:
            for name in sorted({name for container in pod.containers for name in container.limits}):
                async with self._lanes.enter(name):
                    await self._admit_resource(pod, name, running, admission)
        except BaseException:
            admission.roll_back()
            raise
        if admission.assignments:
            # a task of its own: once it is handed to the store, it takes effect even if the caller is cancelled
            problem = await asyncio.shield(self._tasks.create_task(self._commit(admission)))
            if problem is not None:
                raise CheckpointNotWritten(problem.problem) from problem

    def _lacking(self, pod: PodUid, container: ContainerName) -> PodRequest | None:
        """What a container of an admitted pod asks for, if it does not hold all of it."""
        request = self.admitted_pods.get(pod)
        if request is None:
            return None
        held = {item.resource for item in self._state.of_container(pod, container)}
        lacking = tuple(
            each
            for each in request.containers
            if each.name == container and any(count and name not in held for name, count in each.limits.items())
        )
        return replace(request, containers=lacking) if lacking else None

    async def _admit_resource(
        self, pod: PodRequest, name: ResourceName, running: frozenset[ContainerName], admission: _Admission
    ) -> None:
        reuse = ReuseList()
        held = {item.container: item for item in self._state.of_pod(pod.uid) if item.resource == name}
        for container, wish in wishes(pod, name, held, running):
            resource = self._state.resources.get(name)
            devices = frozenset(wish.held.devices) if wish.held else frozenset[DeviceId]()
            if missing_devices(wish, resource) and resource is not None:
                devices = frozenset(await self._allocate(resource, wish, reuse, admission))
            reuse.after(container.kind, devices)

    async def _allocate(
        self, resource: Resource, wish: Wish, reuse: ReuseList, admission: _Admission
    ) -> tuple[DeviceId, ...]:
        devices = await self._choose(resource, wish.required, reuse)
        admission.claim(resource, devices)
        endpoint = self._endpoint(resource)
        _passed(Effect.ALLOCATING)
        response = await endpoint.allocate(devices)
        _passed(Effect.ALLOCATED)
        admission.assignments.append(
            Assignment(wish.pod, wish.container, wish.resource, _by_node(resource, devices), response)
        )
        logger.info("allocated %s of %s to pod %s, container %s", devices, resource.name, wish.pod, wish.container)
        return devices

    async def _choose(self, resource: Resource, required: int, reuse: ReuseList) -> tuple[DeviceId, ...]:
        half = plan(
            resource.name,
            resource.listed,
            claimed=resource.claimed,
            required=required,
            reusable=reuse.devices,
            mask=0,
        )
        preferred: tuple[DeviceId, ...] = ()
        endpoint = self._endpoint(resource)
        if endpoint.options.get_preferred_allocation_available and (question := half.question(resource.listed)):
            preferred = await endpoint.preferred_allocation(question)
        return settle(half, resource.listed, claimed=resource.claimed, preferred=preferred)

    async def _commit(self, admission: _Admission) -> StoreUnusable | None:
        _passed(Effect.COMMITTING)
        try:
            await self._store.commit([SaveAssignments(tuple(admission.assignments))])
        except StoreUnusable as error:
            admission.roll_back()
            return error
        admission.apply()
        _passed(Effect.COMMITTED)
        self._changes.notify()
        return None

    async def _pre_start(self, assignment: Assignment) -> None:
        resource = self._state.resource(assignment.resource)
        match resource.endpoint:
            case Restored():
                return  # options unknown until the plugin is back: skipped, as by a kubelet
            case Expired():
                raise EndpointNotFound(resource.name)
            case Stopped(options=options, since=since) if options.pre_start_required:
                raise PreStartFailed(resource.name, str(EndpointStopped(resource.name, since.isoformat())))
        endpoint = self.endpoints.active(resource.name)
        if endpoint is not None and endpoint.options.pre_start_required:
            await endpoint.pre_start_container(sorted(assignment.devices))

    def _endpoint(self, resource: Resource) -> Endpoint:
        endpoint = self.endpoints.active(resource.name)
        if endpoint is None:
            if isinstance(resource.endpoint, Stopped):
                raise EndpointStopped(resource.name, resource.endpoint.since.isoformat())
            raise UnknownEndpoint(resource.name)
        return endpoint


class _Admission:
    """The claims and assignments of one pod until they are committed."""

    def __init__(self, state: ManagerState) -> None:
        self._state = state
        self._claims: list[tuple[Resource, tuple[DeviceId, ...]]] = []
        self.assignments: list[Assignment] = []

    def claim(self, resource: Resource, devices: tuple[DeviceId, ...]) -> None:
        resource.claim(devices)
        self._claims.append((resource, devices))

    def roll_back(self) -> None:
        for resource, devices in self._claims:
            resource.unclaim(devices)
        self._claims.clear()

    def apply(self) -> None:
        """The claims become those of the assignments."""
        for assignment in self.assignments:
            self._state.assign(assignment)


def _by_node(resource: Resource, devices: tuple[DeviceId, ...]) -> Mapping[int, tuple[DeviceId, ...]]:
    """Devices by NUMA node as listed now; one that vanished in flight has none."""
    grouped: dict[int, list[DeviceId]] = {}
    for device_id in devices:
        for node in resource.listed.numa_nodes(device_id) or (NO_NUMA_NODE,):
            grouped.setdefault(node, []).append(device_id)
    return {node: tuple(ids) for node, ids in sorted(grouped.items())}


def _passed(effect: Effect) -> None:
    logger.debug("effect: %s", effect.value)
