"""The node as its API shows it: the objects that it keeps, what follows them, and the routes that answer for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from plugbay.manager.manager import DeviceManager
from plugbay.node.access.account_access import AccountAccess
from plugbay.node.access.account_tokens import AccountTokens
from plugbay.node.access.clients import ClientUsers
from plugbay.node.access.rights import ClientRights
from plugbay.node.api.collections import Collections
from plugbay.node.api.discovery.routes import DiscoveryRoutes
from plugbay.node.api.node_proxy import NodeProxyRoutes
from plugbay.node.api.nodes import NodePicture, NodeRoutes
from plugbay.node.api.objects import NodeFacts
from plugbay.node.api.pods import PodRoutes
from plugbay.node.api.resources import PODS, ResourceTable
from plugbay.node.api.routes import control_router
from plugbay.node.api.stored.accounts.access_reviews import AccessReviews
from plugbay.node.api.stored.accounts.routes import AccountRoutes
from plugbay.node.api.stored.custom.serving import DefinitionKeeper
from plugbay.node.api.stored.events import EventEnds
from plugbay.node.api.stored.routes import ResourceRoutes
from plugbay.node.api.stored.writing import ObjectWriter
from plugbay.node.api.streams.containers import ContainerRoutes
from plugbay.node.api.streams.logs import LogRoutes
from plugbay.node.api.streams.ports import PortRoutes
from plugbay.node.controllers.namespaces import NamespaceKeeper
from plugbay.node.controllers.placing import NodeLease, make_built_in_classes
from plugbay.node.controllers.running import run_controllers
from plugbay.objects.table import ObjectTable
from plugbay.ops.clock import Clock
from plugbay.ops.routing import Router
from plugbay.ops.tasks import background
from plugbay.pods.engine import PodEngine
from plugbay.pods.node import Node
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable
from plugbay.runtimes.pod_ports import PodPorts
from plugbay.runtimes.port import ContainerRuntime
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class RunningNode:
    """The inside of an open node, for programs that look at it."""

    node: Node
    pods: PodTable
    events: EventLog
    devices: DeviceManager
    engine: PodEngine
    runtime: ContainerRuntime


@dataclass(frozen=True, slots=True)
class NodeObjects:
    """The objects that are stored as they are.

    Attributes:
        resources: the kinds that the API serves; definitions of clients add to them.
        accounts: lets pods reach the API; None if it is not served over TCP.
    """

    table: ObjectTable
    resources: ResourceTable
    writer: ObjectWriter
    tokens: AccountTokens
    ends: EventEnds
    accounts: AccountAccess | None


@asynccontextmanager
async def keep_objects(
    running: RunningNode, objects: NodeObjects, facts: NodeFacts, clock: Clock
) -> AsyncIterator[None]:
    """Make what every cluster has, and keep namespaces and the node's lease while the block runs."""
    writer, table = objects.writer, objects.table
    namespaces = NamespaceKeeper(
        writer,
        table,
        running.pods,
        engine=running.engine,
        resources=objects.resources,
        events=objects.ends,
        accounts=objects.accounts,
        clock=clock,
    )
    await namespaces.prepare()
    await make_built_in_classes(writer)
    lease = NodeLease(facts, table, writer, clock)
    async with (
        background(objects.ends.run(), name="old events"),
        background(lease.run(), name="lease"),
        background(namespaces.run(), name="namespaces"),
    ):
        yield


@asynccontextmanager
async def follow_objects(
    running: RunningNode,
    objects: NodeObjects,
    facts: NodeFacts,
    ports: PodPorts,
    pages: Router,
    *,
    volumes: Path,
    clock: Clock,
) -> AsyncIterator[Router]:
    """Run the controllers while the block does; yields all routes of the API.

    Args:
        pages: the routes that the node's proxy answers.
        volumes: the directory whose file system the pods' volumes are on.
    """
    node, pods, engine, runtime = running.node, running.pods, running.engine, running.runtime
    resources, writer, tokens = objects.resources, objects.writer, objects.tokens
    clients = ClientUsers(tokens)
    rights = ClientRights(clients, objects.table)
    view = NodePicture(node, running.devices, facts)
    collections = Collections(
        pods,
        running.events,
        view.object,
        resources=resources,
        objects=objects.table,
        runtime=runtime.name,
        clock=clock,
    )
    definitions = DefinitionKeeper(objects.table, writer, collections, resources=resources, clock=clock)
    following = collections.follow_node(aiter(node.changes))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(background(definitions.run(), name="definitions"))
        looking = run_controllers(resources, objects.table, writer, pods, engine, running.events, node, clock=clock)
        await stack.enter_async_context(looking)
        await stack.enter_async_context(background(following, name="the node as an object"))
        yield control_router(
            PodRoutes(
                engine, pods, collections[PODS], writer, rights, node=node.name, runtime=runtime.name, clock=clock
            ),
            ContainerRoutes(pods, runtime),
            LogRoutes(pods, runtime, clock),
            PortRoutes(pods, ports),
            NodeRoutes(engine, view, collections, pods, manager=running.devices, clock=clock),
            NodeProxyRoutes(facts, pods, pages, volumes=volumes, clock=clock),
            ResourceRoutes(resources, collections, writer, rights, objects.ends, clock),
            AccountRoutes(tokens, clients, writer, objects.table, pods),
            AccessReviews(clients, objects.table),
            DiscoveryRoutes(resources, facts.version),
        )
