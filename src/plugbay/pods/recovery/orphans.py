"""Clears away what an earlier run of the node left of pods that are gone: containers, sandboxes, volumes, devices."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from plugbay.errors import InstanceNotFound, PlugbayError
from plugbay.model.ids import PodUid
from plugbay.model.pods import DEFAULT_GRACE_PERIOD_S
from plugbay.model.releases import ReleaseReason
from plugbay.ops.clock import Clock
from plugbay.pods.devices import DeviceSource
from plugbay.pods.lifecycle import HOLDS_RESOURCES
from plugbay.pods.running.host import PodHost
from plugbay.pods.store.table import PodTable
from plugbay.runtimes.port import ContainerState, RunState

logger = logging.getLogger(__name__)

RETRY_S: Final = 10.0
"""The pause before the removal of something that stays is tried again."""


def by_pod(instances: Iterable[ContainerState]) -> dict[PodUid, list[ContainerState]]:
    """Instances by the pod they say they belong to."""
    grouped: defaultdict[PodUid, list[ContainerState]] = defaultdict(list)
    for instance in instances:
        grouped[instance.pod_uid].append(instance)
    return grouped


class Orphans:
    """Finds containers, sandboxes and devices that belong to no pod any more, and clears them away."""

    def __init__(self, pods: PodTable, host: PodHost, devices: DeviceSource, *, clock: Clock) -> None:
        self._pods = pods
        self._host = host
        self._devices = devices
        self._clock = clock

    async def leftovers(
        self, there: Mapping[PodUid, Iterable[ContainerState]]
    ) -> dict[PodUid, Sequence[ContainerState]]:
        """The instances that no pod's record names, by their pod, and every pod that holds devices or a sandbox.

        Args:
            there: every instance that the runtime has.
        """
        kept = {id for record in self._pods for each in record.containers.values() for id in each.instances()}
        unknown = by_pod(each for instances in there.values() for each in instances if each.id not in kept)
        sandboxes = await self._host.sandboxes.pods()
        return {uid: unknown.get(uid, ()) for uid in unknown.keys() | self._devices.assigned_pods() | sandboxes}

    async def clear_away(self, uid: PodUid, instances: Sequence[ContainerState]) -> None:
        """Stop and remove ``instances``; if their pod is over, or unknown, also free what it holds."""
        for instance in instances:
            logger.warning("container %s belongs to no pod of this node; removing it", instance.id)
            await self._insist(f"container {instance.id}", partial(self._remove_instance, uid, instance))
        if uid not in self._pods:
            await self._free_all(uid, is_ours=bool(instances))
        elif self._pods[uid].stage not in HOLDS_RESOURCES:
            await self._insist(f"the sandbox of pod {uid}", partial(self._host.sandboxes.stop, uid))
            await self._devices.release_pod(uid)

    async def _free_all(self, uid: PodUid, *, is_ours: bool) -> None:
        is_ours = is_ours or uid in await self._host.sandboxes.pods()
        await self._insist(f"the sandbox of pod {uid}", partial(self._host.sandboxes.remove, uid))
        if is_ours:  # others may be pods of a kubelet, with their volumes, if we took over its root and checkpoint
            remove_volumes = partial(asyncio.to_thread, self._host.volumes.remove, uid)
            await self._insist(f"volumes of pod {uid}", remove_volumes)
        await self._devices.release_pod(uid, reason=ReleaseReason.ORPHANED)

    async def _remove_instance(self, uid: PodUid, instance: ContainerState) -> None:
        with suppress(InstanceNotFound):
            if instance.state in (RunState.RUNNING, RunState.UNKNOWN):
                await self._host.runtime.stop(instance.id, grace_s=DEFAULT_GRACE_PERIOD_S)
            self._devices.container_ended(uid, instance.name, instance.id)
            await self._host.runtime.remove(instance.id)

    async def _insist(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await work()
            except PlugbayError as error:
                problem = "cannot remove %s, which belongs to no pod; trying again in %d s: %s"
                logger.warning(problem, what, RETRY_S, error)
            await self._clock.sleep(RETRY_S)
