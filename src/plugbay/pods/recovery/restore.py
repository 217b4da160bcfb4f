"""Takes up the pods of an earlier run of the node."""

from __future__ import annotations

from functools import partial

from plugbay.ops.clock import Clock
from plugbay.pods.devices import DeviceSource
from plugbay.pods.lifecycle import HOLDS_RESOURCES, PodStage
from plugbay.pods.recovery.adoption import adopt
from plugbay.pods.recovery.orphans import Orphans, by_pod
from plugbay.pods.running.host import PodHost
from plugbay.pods.running.workers import PodWorkers
from plugbay.pods.scheduling.binder import Binder
from plugbay.pods.store.table import PodTable


async def restore(
    pods: PodTable, host: PodHost, devices: DeviceSource, binder: Binder, workers: PodWorkers, *, clock: Clock
) -> None:
    """Take up the stored pods and what the runtime still has of them; called once, before anything else."""
    there = by_pod(await host.runtime.list())
    for record in list(pods):
        adopted = pods.put(adopt(record, there.get(record.uid, ()), now=clock.now()))
        if adopted.stage in HOLDS_RESOURCES and adopted.bound_at is not None:
            binder.occupy(adopted)
        if adopted.stage is PodStage.UNSCHEDULED:
            binder.enqueue(adopted)
        elif adopted.stage not in (PodStage.ENDED, PodStage.GONE):
            workers.start(adopted.uid)
    orphans = Orphans(pods, host, devices, clock=clock)
    for uid, left in (await orphans.leftovers(there)).items():
        comes_first = uid not in pods or pods[uid].stage not in HOLDS_RESOURCES
        workers.clear(uid, partial(orphans.clear_away, uid, left), comes_first=comes_first)
