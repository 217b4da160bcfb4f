"""The controllers of a node, run beside a block."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from plugbay.documents import Json
from plugbay.manifest import Strictness, pod_from_v1
from plugbay.model.taints import KEEPS_AWAY, UNSCHEDULABLE_KEY, Effect, Taint, untolerated
from plugbay.node.api.resources import ResourceTable
from plugbay.node.api.stored.writing import ObjectWriter
from plugbay.node.controllers.garbage_loop import GarbageLoop
from plugbay.node.controllers.loop import ControllerLoop, NodeConditions
from plugbay.node.controllers.pods import ControlledPods
from plugbay.objects.table import ObjectTable
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import background
from plugbay.pods.engine import PodEngine
from plugbay.pods.node import Node
from plugbay.pods.scheduling.constraints import Site, fits_node
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable


@asynccontextmanager
async def run_controllers(
    resources: ResourceTable,
    objects: ObjectTable,
    writer: ObjectWriter,
    pods: PodTable,
    engine: PodEngine,
    events: EventLog,
    node: Node,
    *,
    clock: Clock,
) -> AsyncIterator[None]:
    """Objects that make pods are looked after while the block runs, and garbage is collected."""

    def fits(pod: Json) -> NodeConditions:
        spec = pod_from_v1(pod, mode=Strictness.LENIENT).spec
        placement = spec.placement
        is_wanted = spec.node_name in (None, node.name) and fits_node(placement, Site(node.name, node.labels))
        cordon = (Taint(UNSCHEDULABLE_KEY, Effect.NO_SCHEDULE),) if node.settings.cordoned_since else ()
        taints = (*node.settings.taints, *cordon)
        tolerations = placement.tolerations
        return NodeConditions(
            is_wanted and not untolerated(taints, tolerations, KEEPS_AWAY),
            is_wanted and not untolerated(taints, tolerations, frozenset({Effect.NO_EXECUTE})),
        )

    loop = ControllerLoop(
        objects,
        writer,
        pods,
        ControlledPods(pods, engine, writer, clock),
        events,
        fits=fits,
        node=node.name,
        clock=clock,
    )
    garbage = GarbageLoop(resources, objects, writer, pods, engine, clock)
    following = _follow_node(node, loop)
    async with background(garbage.run(), name="collect garbage"), background(loop.run(), name="controllers"):
        async with background(following, name="daemon sets and the node"):
            yield


async def _follow_node(node: Node, loop: ControllerLoop) -> None:
    async for _ in node.changes:
        loop.look_at_daemon_sets()
