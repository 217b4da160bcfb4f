"""The controllers of a node, run beside a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from plugbay.documents import Json
from plugbay.manifest import Strictness, pod_from_v1
from plugbay.model.ids import PodUid
from plugbay.model.taints import KEEPS_AWAY, UNSCHEDULABLE_KEY, Effect, Taint, untolerated
from plugbay.node.api.resources import ResourceTable
from plugbay.node.api.stored.workloads.rows import WORKLOADS
from plugbay.node.api.stored.writing import ObjectWriter
from plugbay.node.controllers.garbage_loop import GarbageLoop
from plugbay.node.controllers.listening import TableListener
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.objects.watch import Change
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import background
from plugbay.pods.engine import PodEngine
from plugbay.pods.node import Node
from plugbay.pods.record import PodRecord
from plugbay.pods.scheduling.constraints import Site, fits_node
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable

if TYPE_CHECKING:
    from plugbay.node.controllers.loop import ControllerLoop

_CONTROLLED: Final = {(each.group, each.plural) for each in WORKLOADS}


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
    garbage = GarbageLoop(resources, objects, writer, pods, engine, clock)
    looking = _look_after(objects, writer, pods, engine, events, node, clock)
    async with background(garbage.run(), name="collect garbage"), background(looking, name="controllers"):
        yield


async def _look_after(
    objects: ObjectTable,
    writer: ObjectWriter,
    pods: PodTable,
    engine: PodEngine,
    events: EventLog,
    node: Node,
    clock: Clock,
) -> None:
    await until_wanted(objects, pods)
    # Imported here: most nodes have pods only, and the controllers find all that is there when they begin.
    from plugbay.node.controllers.loop import ControllerLoop, NodeConditions
    from plugbay.node.controllers.pods import ControlledPods

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
    async with background(_follow_node(node, loop), name="daemon sets and the node"):
        await loop.run()


async def until_wanted(objects: ObjectTable, pods: PodTable) -> None:
    """Wait for an object that makes pods, or for a pod that such an object made."""
    is_wanted = asyncio.Event()

    def object_changed(change: Change, key: ObjectKey, value: Json) -> None:
        if (key.group, key.plural) in _CONTROLLED:
            is_wanted.set()

    def pod_changed(change: Change, uid: PodUid, record: PodRecord) -> None:
        if record.pod.owners or record.pod.finalizers:
            is_wanted.set()

    object_listener = TableListener[ObjectKey, Json](object_changed)
    pod_listener = TableListener[PodUid, PodRecord](pod_changed)
    objects.attach(object_listener)
    pods.attach(pod_listener)
    are_there = any((key.group, key.plural) in _CONTROLLED for key in objects.keys())
    if not are_there and not any(record.pod.owners or record.pod.finalizers for record in pods):
        await is_wanted.wait()


async def _follow_node(node: Node, loop: ControllerLoop) -> None:
    async for _ in node.changes:
        loop.look_at_daemon_sets()
