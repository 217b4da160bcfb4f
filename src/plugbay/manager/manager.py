"""The Device Manager: registrations and lists in, devices for pods out.

The order of effects for one pod is the promise about crashes: choose, Allocate at the plugin, commit to the store,
answer; the view in the checkpoint file follows. After a crash before the commit nothing is assigned, after a later one
everything.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from plugbay.allocation.table import NO_DEVICES
from plugbay.errors import PathUnusable, StoreUnusable
from plugbay.kernel.files import remove_unfinished
from plugbay.manager.admission.lanes import Lanes
from plugbay.manager.admission.pod_allocation import PodAllocation
from plugbay.manager.admission.pre_start import pre_start
from plugbay.manager.admission.topology import HintProvider, TopologyManager, topology_manager
from plugbay.manager.checkpoint.foreign import settle_checkpoint
from plugbay.manager.checkpoint.rendering import Holdings
from plugbay.manager.checkpoint.view import holdings_of, open_view
from plugbay.manager.config import ManagerConfig
from plugbay.manager.crash_points import CrashPoint, passed
from plugbay.manager.endpoint import ConnectedPlugins
from plugbay.manager.endpoints.endpoints import Endpoints
from plugbay.manager.endpoints.notices import ResourceNews
from plugbay.manager.endpoints.registration import open_to_group, prepare_directory
from plugbay.manager.endpoints.watcher import PluginWatcher, make_directory, run_watcher
from plugbay.manager.gates import Gate
from plugbay.manager.release.notices import ReleaseNotice
from plugbay.manager.release.releases import Releases
from plugbay.manager.serving import snapshot
from plugbay.manager.serving.podresources import AdmittedPods
from plugbay.manager.serving.reader import PodResourcesReader
from plugbay.manager.serving.snapshot import DevicesHealth, ResourceCount, ResourceSnapshot, Snapshot, health_of
from plugbay.manager.state import ManagerState
from plugbay.manager.store.commits import DeletePod, SaveName, SaveOperation, Stored
from plugbay.manager.store.store import Store, open_store
from plugbay.model.edits import ContainerEdits, merge_resources
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.releases import Operation, ReleaseReason
from plugbay.model.requests import PodRequest
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import uninterrupted
from plugbay.wire.convert import decode_edits
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.plugin_transport import PLAIN, PluginTransport
from plugbay.wire.registration import registration_handler
from plugbay.wire.sockets import ONLY_OURS, OURS_AND_THE_GROUPS, check_socket_path

logger = logging.getLogger(__name__)


@asynccontextmanager
async def run_manager(
    config: ManagerConfig,
    *,
    clock: Clock,
    hint_providers: Sequence[HintProvider] = (),
    transport: PluginTransport = PLAIN,
    prepare: Callable[[Path], None] = prepare_directory,
    crashes: Callable[[], bool] = lambda: False,
    endpoints: Callable[..., Endpoints] = Endpoints,
) -> AsyncIterator[DeviceManager]:
    """Run a manager that serves registration until the block ends. It takes up what its store holds.

    Args:
        hint_providers: managers of other resources that lie on NUMA nodes; asked after the devices.
        transport: the way to plugins and from them; a test records and disturbs what passes there.
        prepare: makes the device plugin directory ready, in a thread; a test may have it keep old sockets.
        crashes: asked at the end: whether the registration socket stays, as it does when a kubelet is killed.
        endpoints: makes what follows the plugins; a test may have it act as an old kubelet.

    Raises:
        UnusableTopology: see `make_policy`.
        StoreUnusable: see `open_store`.
        CheckpointNotOurs, PathUnusable: see `settle_checkpoint`.
        PathTooLong, PathUnusable: the registration socket cannot be served, a directory cannot be made, or the root is
            a relative path.
    """
    check_socket_path(config.paths.registration_socket)
    if not config.paths.root.is_absolute():
        raise PathUnusable(str(config.paths.registration_socket), "bad socketPath, must be an absolute path")
    topology = topology_manager(config.topology, config.numa, clock=clock)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(config.store))
        for directory in (config.paths.checkpoint.parent, config.store.parent):  # they are ours, by the store's lock
            await asyncio.to_thread(remove_unfinished, directory)
        stored = await settle_checkpoint(config, store, await asyncio.to_thread(store.load), clock.now())
        stored = await _named(store, stored)
        await asyncio.to_thread(prepare, config.paths.device_plugins)
        await asyncio.to_thread(open_to_group, config.paths.device_plugins, config.plugins_group)
        await asyncio.to_thread(make_directory, config.paths.plugins_registry)
        tasks = asyncio.TaskGroup()
        manager = DeviceManager(
            config,
            clock=clock,
            store=store,
            tasks=tasks,
            topology=topology,
            hint_providers=hint_providers,
            transport=transport,
            endpoints=endpoints,
        )
        # Entered before the tasks, so that it is written for the last time when nothing can change any more.
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
            serve_grpc(
                config.paths.registration_socket,
                [transport.offered(registration_handler(manager.endpoints.register))],
                mode=ONLY_OURS if config.plugins_group is None else OURS_AND_THE_GROUPS,
                stays=crashes,
            )
        )
        manager.watcher = await stack.enter_async_context(
            run_watcher(config.paths.plugins_registry, manager.endpoints, clock=clock, transport=transport)
        )
        # Started last: a manager that cannot start must leave the file as it was.
        stack.callback(view.start(manager.changes(), tasks).cancel)
        manager.endpoints.on_repeated_list = view.hurry
        yield manager


async def _named(store: Store, stored: Stored) -> Stored:
    """Give the store a name if it has none; if the disk is full, it stays without."""
    if stored.name:
        return stored
    name = uuid.uuid4().hex
    try:
        await store.commit([SaveName(name)])
    except StoreUnusable as error:
        logger.warning("cannot name the store, so plugins do not learn that assignments survive a restart: %s", error)
        return stored
    return replace(stored, name=name)


class DeviceManager:
    """Made by `run_manager`. Its methods may be called from one event loop only.

    Attributes:
        admitted_pods: the pods admitted since the manager started and not released, for `serve_pod_resources`.
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
        transport: PluginTransport,
        endpoints: Callable[..., Endpoints],
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
        connected = ConnectedPlugins()
        self.releases = Releases(
            config,
            clock=clock,
            store=store,
            tasks=tasks,
            state=self._state,
            changes=self._changes,
            connected=connected,
        )
        self.endpoints = endpoints(
            config,
            clock=clock,
            store=store,
            tasks=tasks,
            state=self._state,
            changes=self._changes,
            releases=self.releases,
            connected=connected,
            transport=transport,
        )
        self._allocation = PodAllocation(
            topology=topology,
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
            running: containers whose process outlived a restart of the node; they keep the devices they hold.

        Raises:
            AdmissionError: with the kubelet's text; nothing stays allocated.
        """
        async with self._lanes.enter(pod.uid):
            others = [part for provider in self._hint_providers for part in provider.parts(pod, running)]
            try:
                await self._allocation.admit(pod, frozenset(running), others)
            except BaseException:
                self._forget(pod.uid)
                raise
            self.admitted_pods.add(pod)
            passed(CrashPoint.ANSWERING)

    async def prepare_container(self, pod: PodUid, container: ContainerName) -> ContainerEdits:
        """Call PreStartContainer where plugins want it; return the container's edits. Call this before each start.

        A container that was running when the node started, and whose devices were not known, gets its devices here.

        Raises:
            AdmissionError: a plugin refused, or is gone; the start can be tried again later.
        """
        if self._lacking(pod, container) is not None:
            async with self._lanes.enter(pod):
                if (request := self._lacking(pod, container)) is not None:
                    await self._allocation.supply(request)
        self.releases.container_not_started(pod, container)  # the container that was prepared before was not started
        await self.releases.before_start(pod, container)
        await pre_start(pod, container, state=self._state, endpoints=self.endpoints, releases=self.releases)
        return self.edits(pod, container)

    def container_ended(self, pod: PodUid, container: ContainerName, instance: str) -> None:
        """Tell the plugins that want to know it that an instance of a container is dead. Harmless twice.

        Args:
            instance: the runtime's ID of the instance; only the container's newest instance counts.
        """
        self.releases.container_ended(pod, container, instance)

    def container_not_started(self, pod: PodUid, container: ContainerName) -> None:
        """Tell the plugins that want to know it that the container was not started after `prepare_container`."""
        self.releases.container_not_started(pod, container)

    def edits(self, pod: PodUid, container: ContainerName) -> ContainerEdits:
        """The merged edits of all devices of a container; on conflict the first resource name wins."""
        return merge_resources(decode_edits(item.response) for item in self._state.of_container(pod, container))

    async def release_pod(self, pod: PodUid, *, reason: ReleaseReason = ReleaseReason.POD_ENDED) -> None:
        """Release a pod's devices, durably, after the pod's processes have ended. Harmless twice.

        Devices whose plugin has yet to confirm Deallocate stay out of use; see `until_deallocated`.

        Raises:
            StoreUnusable: nothing is released.
        """
        async with self._lanes.enter(pod):
            if pod in self._state.pods():
                self.releases.pod_ends(pod)
                await uninterrupted(self._tasks, partial(self._release, pod, reason))
            self.admitted_pods.remove(pod)
            self._forget(pod)

    async def until_deallocated(self, pod: PodUid) -> None:
        """Wait until each connected plugin was once called for Deallocate of a released pod, or time is up."""
        await self.releases.first_attempts(pod)

    async def _release(self, pod: PodUid, reason: ReleaseReason) -> None:
        operations = self.releases.due.at_end_of_pod(pod, reason)
        passed(CrashPoint.RELEASING)
        # Committed first, or a crash could leave a device with two owners.
        await self._store.commit([DeletePod(pod), *map(SaveOperation, operations)])
        self.releases.start(operations)
        self.releases.pod_is_gone(pod)
        self._state.remove_pod(pod)
        passed(CrashPoint.RELEASED)
        logger.info("released the devices of pod %s", pod)
        self._changes.notify()

    # --- onlookers --------------------------------------------------------------------------------------------------

    def devices_of(self, pod: PodUid) -> Mapping[ContainerName, Mapping[ResourceName, tuple[DeviceId, ...]]]:
        held: dict[ContainerName, dict[ResourceName, tuple[DeviceId, ...]]] = {}
        for item in self._state.of_pod(pod):
            held.setdefault(item.container, {})[item.resource] = tuple(sorted(item.devices))
        return held

    def awaited_plugins(self) -> frozenset[ResourceName]:
        """Resources known from before our start whose plugin has not sent a list yet."""
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
        """Counts for the node object. A resource whose plugin stays away is counted with zeros, as by a kubelet."""
        resources = self._state.resources.items()
        return {name: snapshot.count(resource) for name, resource in resources if resource.is_counted}

    def health_of(self, pod: PodUid) -> DevicesHealth:
        """Health of the pod's devices, for its status; empty when the gate ``ResourceHealthStatus`` is off."""
        return health_of(self._state, pod) if self._gates.is_enabled(Gate.RESOURCE_HEALTH_STATUS) else {}

    def health_notices(self) -> AsyncIterator[tuple[PodUid, ...]]:
        """Pods whose `health_of` may have changed, as it happens; for one reader."""
        return aiter(self.endpoints.health_notices)

    def resource_notices(self) -> AsyncIterator[Mapping[ResourceName, ResourceNews]]:
        """Changes of plugins and of the health of devices, as they happen; for one reader."""
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
        """The resources of `snapshot` one by one, for readers that yield to other tasks in between."""
        return snapshot.resources(self._state)

    def pod_resources(self) -> PodResourcesReader:
        """The reader for `plugbay.manager.serving.podresources.serve_pod_resources`."""
        return PodResourcesReader(self._state)

    def holdings(self) -> Holdings:
        """The contents of a checkpoint of the present state."""
        return holdings_of(self._state)

    def changes(self) -> AsyncIterator[None]:
        """Yield once at once, then after each change, or burst of changes, of devices, plugins or assignments."""
        return aiter(self._changes)

    def restore(self, stored: Stored) -> None:
        """Take up the assignments of the store; called once, before anything else."""
        for assignment in stored.assignments:
            self._state.restore(assignment)
        if stored.assignments or stored.resources:
            logger.info("restored %d assignments, %d resources", len(stored.assignments), len(stored.resources))

    # --- effects ----------------------------------------------------------------------------------------------------

    def _forget(self, pod: PodUid) -> None:
        """Drop what is known about a pod besides its devices."""
        self.topology.forget(pod)
        for provider in self._hint_providers:
            provider.release(pod)

    def _lacking(self, pod: PodUid, container: ContainerName) -> PodRequest | None:
        """The request of a container of an admitted pod, if the container does not hold all that it asks for."""
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
