"""The composition root: everything a node is made of, put together and taken apart in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from plugbay.errors import PlugbayError, UsageError
from plugbay.manager.config import ManagerConfig
from plugbay.manager.gates import changed_in_vain
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.serving.podresources import serve_pod_resources
from plugbay.model.dns import is_subdomain
from plugbay.model.ids import ResourceName
from plugbay.model.pods import pod_request
from plugbay.node.access.account_access import AccountAccess
from plugbay.node.access.account_tokens import AccountTokens
from plugbay.node.api.collections import first_version
from plugbay.node.api.objects import NodeFacts
from plugbay.node.api.recording.node import NodeRecorder
from plugbay.node.api.recording.routes import LocalRouter
from plugbay.node.api.resources import ResourceTable
from plugbay.node.api.stored.events import EventEnds
from plugbay.node.api.stored.kinds import BUILT_IN
from plugbay.node.api.stored.writing import ObjectWriter
from plugbay.node.config import NodeConfig
from plugbay.node.configs import NodeConfigs
from plugbay.node.control import NodeObjects, RunningNode, follow_objects, keep_objects
from plugbay.node.controllers.placing import namespace_labels, priority_classes
from plugbay.node.pages import NodePages
from plugbay.node.podresources import KnownPods
from plugbay.node.resource_events import follow_resources
from plugbay.node.root_lock import take_root
from plugbay.node.runtimes.choice import open_runtime
from plugbay.node.runtimes.chosen import ChosenRuntime
from plugbay.objects.table import ObjectTable
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.ops.http import serve_http
from plugbay.ops.listening import TcpAddress, UnixAddress
from plugbay.ops.pages import pages_router, serve_pages
from plugbay.ops.routing import Router
from plugbay.ops.tasks import background
from plugbay.pods.admission import NOBODY, Joining
from plugbay.pods.engine import PodEngine, run_engine
from plugbay.pods.events import ObjectRef
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.node import Machine, Node, follow_absences, read_machine, registered
from plugbay.pods.record import PodRecord
from plugbay.pods.running.host import PodHost
from plugbay.pods.running.sub_paths import SubPathMeans
from plugbay.pods.running.volumes import Volumes
from plugbay.pods.static.source import ManifestSource, end_static_pods
from plugbay.pods.store.database import open_pod_store
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable
from plugbay.version import VERSION

logger = logging.getLogger(__name__)

PLUGINS_RETURN_S: Final = 1.0
"""A kubelet was seen to admit its pods 0.9 s after its socket was there; a plugin that watches it needs 30 ms."""


async def run_node(
    config: NodeConfig,
    *,
    environ: Mapping[str, str],
    clock: Clock,
    stop: asyncio.Event,
    ready: Callable[[], None],
    joining: Joining = NOBODY,
) -> None:
    """Run a node until ``stop`` is set. Pods go on running without it, and are adopted at the next start.

    Args:
        environ: what containers' wrappers run with.
        ready: called once the control socket answers.
        joining: other resource managers.

    Raises:
        PathTooLong, PathUnusable, RootInUse, KubeletIsLive, StoreUnusable, CheckpointNotOurs, UnusableTopology,
            EngineUnusable, ContainerEngineUnusable, UsageError: it cannot start; nothing was changed.
        OperatorError: something it needs was taken away.
    """
    try:
        async with open_node(config, environ=environ, clock=clock, joining=joining):
            ready()
            await stop.wait()
    except BaseExceptionGroup as group:
        raise _only_error(group) from group


@asynccontextmanager
async def open_node(
    config: NodeConfig,
    *,
    environ: Mapping[str, str],
    clock: Clock,
    joining: Joining = NOBODY,
    start_manager: Callable[..., AbstractAsyncContextManager[DeviceManager]] = run_manager,
) -> AsyncIterator[RunningNode]:
    """A node that runs while the block does; see `run_node`. ``start_manager`` is for tests.

    Parts are in the order in which they start; they stop in the reverse order.

    The control socket stops first, so that clients ask for nothing more; then the pods' workers, which leave the
    processes alone; then PodResources; then the manager with registration and endpoints; then the stores, when nothing
    can change any more; then metrics and probes, which tell of all that; the lock goes last.
    """
    async with AsyncExitStack() as stack:
        stack.callback(os.close, await asyncio.to_thread(take_root, config))
        pages = NodePages(config.kubelet_paths.registration_socket, clock)
        if config.metrics is not None:
            await stack.enter_async_context(serve_pages(pages.pages(), config.metrics))
        machine = await asyncio.to_thread(
            read_machine, config.root, max_pods=config.max_pods, fake_numa_nodes=config.fake_numa_nodes
        )
        name = _node_name(config, machine)
        _warn(config)
        store = await stack.enter_async_context(open_pod_store(config.pod_store))
        stored = await asyncio.to_thread(store.load)
        manager_config = _manager_config(config, machine)
        recorder = NodeRecorder(manager_config, clock)
        stack.enter_context(recorder.recording(config.record))
        manager = await stack.enter_async_context(
            start_manager(
                manager_config, clock=clock, hint_providers=joining.hint_providers, transport=recorder.transport
            )
        )
        pages.manager = manager
        pods = PodTable(store, stored=stored.pods, first_version=first_version(clock))
        pages.calls = await stack.enter_async_context(
            serve_pod_resources(
                config.kubelet_paths.pod_resources_socket,
                manager.pod_resources(),
                KnownPods(pods),
                clock=clock,
                gates=config.gates,
            )
        )
        chosen = await stack.enter_async_context(open_runtime(config, machine, environ=environ, clock=clock))
        logger.info("containers are run by %s", chosen.about)
        node = Node(
            name,
            machine,
            store,
            clock,
            settings=registered(name, store, stored.node, config.registers_with, now=clock.now()),
        )
        await stack.enter_async_context(background(_forward(manager.changes(), node.changes), name="node changes"))
        newest = max((event.serial for event in stored.events), default=0)
        objects = ObjectTable(store, stored=stored.objects, first_version=max(first_version(clock), newest))
        tokens = AccountTokens(objects, pods.has_uid, clock)
        accounts = None if config.api is None else AccountAccess(objects, tokens, clock)
        events = EventLog(store, clock, stored=stored.events, next_serial=objects.next_version)
        host = PodHost(
            chosen.runtime,
            Volumes(config.pods, chosen.sub_paths, memory_bytes=machine.capacity["memory"]),
            NodeConfigs(objects, accounts, places_files=chosen.sub_paths is not SubPathMeans.OPEN),
            machine.capacity,
            await stack.enter_async_context(asyncio.TaskGroup()),
            chosen.sandboxes,
            config.on_missing_mount,
        )
        pages.pods = pods
        await _plugins_return(manager, _resources_of(stored.pods))
        engine = await stack.enter_async_context(
            run_engine(
                node,
                pods,
                events,
                host,
                recorder.devices(manager),
                clock=clock,
                handlers=joining.handlers,
                on_device_failure=config.on_device_failure,
                priority_classes=partial(priority_classes, objects),
                namespace_labels=partial(namespace_labels, objects),
            )
        )
        pages.rejections = engine.admission.rejections
        pages.facts = facts = await asyncio.to_thread(_facts, config, node, chosen, clock)
        running = RunningNode(node, pods, events, manager, engine, chosen.runtime)
        about = ObjectRef("Node", "", name, facts.uid)
        await stack.enter_async_context(_node_events(running, about, chosen, clock))
        served = NodeObjects(
            objects,
            ResourceTable(BUILT_IN),
            ObjectWriter(objects, clock),
            tokens,
            EventEnds(events, objects, clock),
            accounts,
        )
        await stack.enter_async_context(keep_objects(running, served, facts, clock))
        await stack.enter_async_context(_static_pods(config, running, about, engine))
        router = await stack.enter_async_context(
            follow_objects(
                running, served, facts, chosen.ports, pages_router(pages.pages()), volumes=config.root, clock=clock
            )
        )
        control = serve_http(LocalRouter(router, recorder), UnixAddress(config.control_socket), refusal=chosen.refusal)
        await stack.enter_async_context(control)
        if config.api is not None and accounts is not None:
            await stack.enter_async_context(_api(config, config.api, router, name, accounts, clock))
        if config.ui is not None:
            await stack.enter_async_context(_page(config, config.ui, pods, clock))
        logger.info("node %s is ready at %s", name, config.control_socket)
        pages.is_ready = True
        stack.callback(setattr, pages, "is_ready", False)
        yield running
        logger.info("node %s stops; its pods go on", name)


def _facts(config: NodeConfig, node: Node, chosen: ChosenRuntime, clock: Clock) -> NodeFacts:
    return NodeFacts(
        name=node.name,
        uid=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{config.real_root.as_uri()}#{node.name}")),
        machine=node.machine,
        runtime=chosen.runtime.name,
        version=VERSION,
        runtime_version=chosen.version,
        started_at=clock.now(),
    )


@asynccontextmanager
async def _page(config: NodeConfig, address: TcpAddress, pods: PodTable, clock: Clock) -> AsyncIterator[None]:
    from plugbay.observe.page.serving import PageSettings, serve_node_page  # few nodes have a page
    from plugbay.observe.places import places_of

    places, settings = places_of(config.root, is_own=True), PageSettings(address=address, names=config.ui_names)
    rejections = Changes()
    async with (
        background(_tell_rejections(pods, rejections), name="rejected pods for the page"),
        serve_node_page(places, settings, clock, told=rejections) as url,
    ):
        logger.info("the node's page for browsers is at %s", url)
        yield


async def _tell_rejections(pods: PodTable, changes: Changes) -> None:
    """Notify of pods that are rejected, and of the end of such: both leave no trace in the directories of the node."""
    watch = pods.watch()
    while True:
        if any(record.rejection is not None for _, record in await watch.next()):
            changes.notify()


def _api(
    config: NodeConfig, address: TcpAddress, router: Router, name: str, accounts: AccountAccess, clock: Clock
) -> AbstractAsyncContextManager[str]:
    from plugbay.node.access.serving import serve_api  # loads OpenSSL

    return serve_api(
        router,
        address,
        directory=config.api_keys,
        node=name,
        config=config.kubeconfig,
        accounts=accounts,
        clock=clock,
    )


@asynccontextmanager
async def _node_events(
    running: RunningNode, about: ObjectRef, chosen: ChosenRuntime, clock: Clock
) -> AsyncIterator[None]:
    """Record events of the node's resources and of its runtime while the block runs."""
    async with AsyncExitStack() as stack:
        following = follow_resources(running.events, about, running.devices.resource_notices(), clock=clock)
        await stack.enter_async_context(background(following, name="resource events"))
        if chosen.absences is not None:
            following = follow_absences(
                running.node, about, chosen.absences(), pods=running.pods, events=running.events
            )
            await stack.enter_async_context(background(following, name="runtime health"))
        yield


@asynccontextmanager
async def _static_pods(
    config: NodeConfig, running: RunningNode, about: ObjectRef, engine: PodEngine
) -> AsyncIterator[None]:
    """Keep the pods of the directory of manifests while the block runs; without one, end the pods that it once made."""
    if config.manifests is None:
        await end_static_pods(engine, running.pods)
        yield
        return
    source = ManifestSource(config.manifests, node=about, engine=engine, pods=running.pods, events=running.events)
    async with background(source.run(), name="static pods"):
        yield


async def _forward(moves: AsyncIterator[None], changes: Changes) -> None:
    async for _ in moves:
        changes.notify()


def _node_name(config: NodeConfig, machine: Machine) -> str:
    name = config.name or machine.hostname.lower()
    if not is_subdomain(name):
        raise UsageError(
            f"{name!r} is not a name for a node: it has to be lower-case words joined by dots; give --name"
        )
    return name


def _warn(config: NodeConfig) -> None:
    """Warn of settings that do less, or more, than they seem to."""
    if config.fake_numa_nodes is not None:
        logger.warning(
            "pretending to have %d NUMA nodes, so affinity to the true ones is not kept; pretend only in tests",
            config.fake_numa_nodes,
        )
    for gate in changed_in_vain(config.gates):
        logger.warning("feature gate %s has no effect here; it can be left out", gate.value)


def _resources_of(records: Iterable[PodRecord]) -> frozenset[ResourceName]:
    """The resources that the pods which have not ended ask for."""
    alive = (record for record in records if record.stage in (PodStage.BOUND, PodStage.ACTIVE))
    containers = (container for record in alive for container in pod_request(record.pod).containers)
    return frozenset(name for container in containers for name in container.limits)


async def _plugins_return(manager: DeviceManager, wanted: frozenset[ResourceName]) -> None:
    """Give the plugins of ``wanted`` resources a moment to register again, before pods of before are admitted again.

    A kubelet takes as long to look at its pods, and plugins rely on it (spec 4.7).
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PLUGINS_RETURN_S):
            async for _ in manager.changes():
                if not wanted & manager.awaited_plugins():
                    return


def _manager_config(config: NodeConfig, machine: Machine) -> ManagerConfig:
    return ManagerConfig(
        config.kubelet_paths,
        config.manager_store,
        call_timeout_s=config.call_timeout_s,
        dial_timeout_s=config.dial_timeout_s,
        pre_start_timeout_s=config.pre_start_timeout_s,
        grace_period_s=config.grace_period_s,
        gates=config.gates,
        on_foreign_checkpoint=config.on_foreign_checkpoint,
        plugins_group=config.plugins_group,
        release=config.release,
        topology=config.topology,
        numa=machine.numa,
    )


def _only_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to raise for a failed task group: our one error that is meant for people, else the group."""
    errors = _leaves(group)
    if len(errors) == 1 and isinstance(errors[0], PlugbayError):
        return errors[0]
    return group


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]
