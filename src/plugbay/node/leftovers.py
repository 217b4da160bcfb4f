"""What an earlier run of the node has left that belongs to no pod any more: containers, sandboxes, devices."""

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
from plugbay.node.lifecycle import HOLDS_RESOURCES
from plugbay.node.parts import NodeParts
from plugbay.node.runtimes.port import ContainerState, RunState

logger = logging.getLogger(__name__)

RETRY_S: Final = 10.0
"""Before something that stays is tried again."""


def by_pod(instances: Iterable[ContainerState]) -> dict[PodUid, list[ContainerState]]:
    """Instances by the pod they say they belong to."""
    grouped: defaultdict[PodUid, list[ContainerState]] = defaultdict(list)
    for instance in instances:
        grouped[instance.pod_uid].append(instance)
    return grouped


async def leftovers(
    parts: NodeParts, there: Mapping[PodUid, Iterable[ContainerState]]
) -> dict[PodUid, Sequence[ContainerState]]:
    """For `clear_away`: the instances that no pod's record names, and all who hold devices or a sandbox.

    Args:
        there: every instance that the runtime has.
    """
    kept = {id for record in parts.pods for each in record.containers.values() for id in each.instances()}
    unknown = by_pod(each for instances in there.values() for each in instances if each.id not in kept)
    sandboxes = await parts.sandboxes.pods()
    return {uid: unknown.get(uid, ()) for uid in unknown.keys() | parts.devices.assigned_pods() | sandboxes}


async def clear_away(parts: NodeParts, uid: PodUid, instances: Iterable[ContainerState]) -> None:
    """Stop and remove ``instances``; if their pod is over, or unknown, also free what it holds."""
    for instance in (instances := tuple(instances)):
        logger.warning("removing container %s, which belongs to no pod", instance.id)
        await _insist(parts, f"container {instance.id}", partial(_remove_instance, parts, uid, instance))
    sandbox = f"the sandbox of pod {uid}"
    if uid not in parts.pods:
        is_ours = bool(instances) or uid in await parts.sandboxes.pods()
        await _insist(parts, sandbox, partial(parts.sandboxes.remove, uid))
        if is_ours:  # others may be pods of a kubelet whose root and checkpoint we took over, with their volumes
            remove_volumes = partial(asyncio.to_thread, parts.volumes.remove, uid)
            await _insist(parts, f"volumes of pod {uid}", remove_volumes)
        await parts.devices.release_pod(uid, reason=ReleaseReason.ORPHANED)
    elif parts.pods[uid].stage not in HOLDS_RESOURCES:
        await _insist(parts, sandbox, partial(parts.sandboxes.stop, uid))
        await parts.devices.release_pod(uid)


async def _remove_instance(parts: NodeParts, uid: PodUid, instance: ContainerState) -> None:
    with suppress(InstanceNotFound):
        if instance.state in (RunState.RUNNING, RunState.UNKNOWN):
            await parts.runtime.stop(instance.id, grace_s=DEFAULT_GRACE_PERIOD_S)
        parts.devices.container_ended(uid, instance.name, instance.id)
        await parts.runtime.remove(instance.id)


async def _insist(parts: NodeParts, what: str, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            return await work()
        except PlugbayError as error:
            logger.warning("%s, which belongs to no pod, stays for now: %s", what, error)
        await parts.clock.sleep(RETRY_S)
