"""The Device Manager: registrations and lists in, devices for pods out.

Order of effects for one pod, which is the promise about crashes: choose, Allocate at the plugin, commit to the store,
answer; its view in the checkpoint file follows. A crash before the commit leaves nothing assigned; after it,
everything.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

from plugbay.allocation.table import NO_DEVICES
from plugbay.errors import PathUnusable, StoreUnusable
from plugbay.kernel.files import remove_unfinished
from plugbay.manager import snapshot
from plugbay.manager.commits import DeletePod, SaveName, SaveOperation, Stored
from plugbay.manager.config import ManagerConfig
from plugbay.manager.effects import Effect, passed
from plugbay.manager.endpoint import Endpoint
from plugbay.manager.endpoints import Endpoints
from plugbay.manager.foreign import settle_checkpoint
from plugbay.manager.gates import Gate
from plugbay.manager.health import DevicesHealth, health_of
from plugbay.manager.lanes import Lanes
from plugbay.manager.operations import Operation
from plugbay.manager.pod_allocation import PodAllocation
from plugbay.manager.podresources import AdmittedPods
from plugbay.manager.podresources_reader import PodResourcesReader
from plugbay.manager.pre_start import pre_start
from plugbay.manager.registration import prepare_directory
from plugbay.manager.release_notices import ReleaseNotice
from plugbay.manager.releases import Releases
from plugbay.manager.rendering import Holdings
from plugbay.manager.resource_notices import ResourceNews
from plugbay.manager.snapshot import ResourceCount, ResourceSnapshot, Snapshot
from plugbay.manager.state import ManagerState
from plugbay.manager.store import Store, open_store
from plugbay.manager.topology import HintProvider, TopologyManager, topology_manager
from plugbay.manager.view import holdings_of, open_view
from plugbay.manager.watcher import PluginWatcher, make_directory, run_watcher
from plugbay.model.edits import ContainerEdits, merge_resources
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.releases import ReleaseReason
from plugbay.model.requests import PodRequest
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import uninterrupted
from plugbay.wire.convert import decode_edits
from plugbay.wire.registration import registration_handler
from plugbay.wire.transport import check_socket_path, serve_grpc

logger = logging.getLogger(__name__)


@asynccontextmanager
async def run_manager(
    config: ManagerConfig, *, clock: Clock, hint_providers: Sequence[HintProvider] = ()
) -> AsyncIterator[DeviceManager]:
    """A manager that serves registration until the block ends. What it stored before is taken up again.

    Args:
        hint_providers: who gives out what else has a place on the machine; asked after the devices.

    Raises:
        UnusableTopology: see `make_policy`.
        StoreUnusable: see `open_store`.
        CheckpointNotOurs, PathUnusable: see `settle_checkpoint`.
        PathTooLong, PathUnusable: the registration socket cannot be served, a directory not be made, or the root is
            a relative path.
    """
    check_socket_path(config.paths.registration_socket)
    if not config.paths.root.is_absolute():
        raise PathUnusable(str(config.paths.registration_socket), "bad socketPath, must be an absolute path")
    topology = topology_manager(config.topology, config.numa, clock=clock)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(config.store))
        for directory in (config.paths.checkpoint.parent, config.store.parent):  # which are ours, by the store's lock
            await asyncio.to_thread(remove_unfinished, directory)
        stored = await settle_checkpoint(config, store, await asyncio.to_thread(store.load), clock.now())
        stored = await _named(store, stored)
        await asyncio.to_thread(prepare_directory, config.paths.device_plugins)
        await asyncio.to_thread(make_directory, config.paths.plugins_registry)
        tasks = asyncio.TaskGroup()
        manager = DeviceManager(
            config, clock=clock, store=store, tasks=tasks, topology=topology, hint_providers=hint_providers
        )
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
        manager.endpoints.restore(stored)
        manager.restore(stored)
        await manager.releases.restore(stored)
        stack.push_async_callback(manager.endpoints.close)  # runs after registration has stopped
        stack.push_async_callback(manager.releases.close)  # before that, or its calls would seem to fail
        await stack.enter_async_context(
            serve_grpc(config.paths.registration_socket, [registration_handler(manager.endpoints.register)])
        )
        manager.watcher = await stack.enter_async_context(
            run_watcher(config.paths.plugins_registry, manager.endpoints, clock=clock)
        )
        # Only now: a manager that could not start must leave the file as it was.
        stack.callback(view.start(manager.changes(), tasks).cancel)
        manager.endpoints.on_repeated_list = view.hurry
        yield manager


async def _named(store: Store, stored: Stored) -> Stored:
    """``stored`` with the name of the store; a full disk leaves it without one."""
    if stored.name:
        return stored
    name = uuid.uuid4().hex
    try:
        await store.commit([SaveName(name)])
    except StoreUnusable as error:
        logger.warning("plugins cannot tell that assignments survive a restart: %s", error)
        return stored
    return replace(stored, name=name)


class DeviceManager:
    """Made by `run_manager`. Its methods may be called from one event loop only.

    Attributes:
        admitted_pods: the pods admitted since the manager runs and not released, for `serve_pod_resources`.
        topology: takes pods through the resources they ask for.
        watcher: finds plugins by their sockets; set once it runs.
    """

    def __init__(
        self,
        config: ManagerConfig,
        *,
        clock: Clock,
        store: Store,
        tasks: asyncio.TaskGroup,
        topology: TopologyManager,
        hint_providers: Sequence[HintProvider],
    ) -> None:
        self.topology = topology
        self.watcher: PluginWatcher | None = None
        self._hint_providers = hint_providers
        self._state = ManagerState()
        self._store = store
        self._tasks = tasks
        self._gates = config.gates
        self._changes = Changes()
        self._lanes = Lanes()
        self.admitted_pods = AdmittedPods()
        self.releases = Releases(
            config,
            clock=clock,
            store=store,
            tasks=tasks,
            state=self._state,
            changes=self._changes,
            active=self._active_endpoint,
        )
        self._post_stops = self.releases.post_stops
        self.endpoints = Endpoints(
            config,
            clock=clock,
            store=store,
            tasks=tasks,
            state=self._state,
            changes=self._changes,
            releases=self.releases,
        )
        self._allocation = PodAllocation(
            state=self._state,
            store=store,
            tasks=tasks,
            changes=self._changes,
            endpoints=self.endpoints,
            releases=self.releases,
            numa_nodes=config.numa.nodes,
        )

    # --- pods -------------------------------------------------------------------------------------------------------

    async def admit(self, pod: PodRequest, *, running: Collection[ContainerName] = ()) -> None:
        """Give every container of the pod its devices, or none at all. Harmless for a pod that has them.

        Args:
            running: containers whose process outlived a restart of the node; what they hold they keep.

        Raises:
            AdmissionError: with the kubelet's text; nothing stays allocated.
        """
        async with self._lanes.enter(pod.uid):
            others = [part for provider in self._hint_providers for part in provider.parts(pod, running)]
            try:
                await self._allocation.allocate(
                    pod, frozenset(running), lambda devices: self.topology.admit(pod, [*devices, *others])
                )
            except BaseException:
                self._forget(pod.uid)
                raise
            self.admitted_pods.add(pod)
            passed(Effect.ANSWERING)

    async def prepare_container(self, pod: PodUid, container: ContainerName) -> ContainerEdits:
        """What a container gets, after PreStartContainer at the plugins that ask for it. Call before every start.

        A container that was running when the node started, with devices that nobody knew of, gets its devices here.

        Raises:
            AdmissionError: a plugin refused or is gone; try again later.
        """
        if self._lacking(pod, container) is not None:
            async with self._lanes.enter(pod):
                if (request := self._lacking(pod, container)) is not None:
                    await self._allocation.allocate(request, frozenset(), partial(self.topology.supply, request))
        self._post_stops.container_not_started(pod, container)  # nothing came of what was prepared before
        await self._post_stops.before_start(pod, container)
        await pre_start(pod, container, state=self._state, endpoints=self.endpoints, post_stops=self._post_stops)
        return self.edits(pod, container)

    def container_ended(self, pod: PodUid, container: ContainerName, instance: str) -> None:
        """An instance of a container is dead: its plugins hear of it that want to. Harmless twice.

        Args:
            instance: the runtime's ID of it; only the container's newest one counts.
        """
        self._post_stops.container_ended(pod, container, instance)

    def container_not_started(self, pod: PodUid, container: ContainerName) -> None:
        """After `prepare_container` nothing was started."""
        self._post_stops.container_not_started(pod, container)

    def edits(self, pod: PodUid, container: ContainerName) -> ContainerEdits:
        """What a container gets from all its devices; on conflict the first resource name wins."""
        return merge_resources(decode_edits(item.response) for item in self._state.of_container(pod, container))

    async def release_pod(self, pod: PodUid, *, reason: ReleaseReason = ReleaseReason.POD_ENDED) -> None:
        """The pod has ended and its processes are gone: its devices are no longer its own, durably. Harmless twice.

        They are free, but for those whose plugin has yet to confirm Deallocate; see `until_deallocated`.

        Raises:
            StoreUnusable: nothing is released.
        """
        async with self._lanes.enter(pod):
            if pod in self._state.pods():
                self._post_stops.prepared_in_vain(pod)
                await uninterrupted(self._tasks, partial(self._release, pod, reason))
            self.admitted_pods.remove(pod)
            self._forget(pod)

    async def until_deallocated(self, pod: PodUid) -> None:
        """Wait until each Deallocate for a released pod was tried once; not for a plugin that is away, nor for long."""
        await self.releases.first_attempts(pod)

    async def _release(self, pod: PodUid, reason: ReleaseReason) -> None:
        operations = self.releases.of_ended_pod(pod, reason)
        passed(Effect.RELEASING)
        # First, or a crash could leave a device with two owners.
        await self._store.commit([DeletePod(pod), *map(SaveOperation, operations)])
        self.releases.start(operations)
        self._post_stops.pod_is_gone(pod)
        self._state.remove_pod(pod)
        passed(Effect.RELEASED)
        logger.info("released the devices of pod %s", pod)
        self._changes.notify()

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

    def holds_devices(self, pod: PodUid) -> bool:
        return next(self._state.of_pod(pod), None) is not None

    def in_use(self) -> Mapping[ResourceName, int]:
        """How many devices of each resource pods hold, listed or not."""
        return {name: resource.in_use for name, resource in self._state.resources.items()}

    def resources(self) -> Mapping[ResourceName, ResourceCount]:
        """Counts for the node object. A resource whose plugin stayed away stays, with zeros, as on a kubelet."""
        resources = self._state.resources.items()
        return {name: snapshot.count(resource) for name, resource in resources if resource.is_counted}

    def health_of(self, pod: PodUid) -> DevicesHealth:
        """For the pod's status; nothing when the gate ``ResourceHealthStatus`` is off."""
        return health_of(self._state, pod) if self._gates.is_enabled(Gate.RESOURCE_HEALTH_STATUS) else {}

    def health_notices(self) -> AsyncIterator[frozenset[PodUid]]:
        """Pods whose `health_of` may have become another, as it happens; for one reader."""
        return aiter(self.endpoints.health_notices)

    def resource_notices(self) -> AsyncIterator[Mapping[ResourceName, ResourceNews]]:
        """What happens to plugins and to the health of devices; for one reader."""
        return aiter(self.endpoints.resource_notices)

    def release_notices(self) -> AsyncIterator[ReleaseNotice]:
        """Failed PostStopContainer and Deallocate calls, as they happen; for one reader."""
        return aiter(self.releases.notices)

    def release_operations(self) -> tuple[Operation, ...]:
        """PostStopContainer and Deallocate calls still to be confirmed, oldest first."""
        return self.releases.operations()

    def snapshot(self) -> Snapshot:
        return snapshot.take(self._state)

    def resource_snapshots(self) -> Iterator[ResourceSnapshot]:
        """The resources of `snapshot` one by one, for readers that let others go on in between."""
        return snapshot.resources(self._state)

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

    def _forget(self, pod: PodUid) -> None:
        """Beside its devices."""
        self.topology.forget(pod)
        for provider in self._hint_providers:
            provider.release(pod)

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

    def _active_endpoint(self, resource: ResourceName) -> Endpoint | None:
        return self.endpoints.active(resource)
