"""A node that runs pods as plain processes, for tests; and what became of a pod."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final

from plugbay.errors import PodNotFound
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager
from plugbay.model.pods import Pod
from plugbay.node.config import NodeConfig
from plugbay.node.control import RunningNode
from plugbay.node.run import open_node
from plugbay.ops.clock import Clock
from plugbay.ops.listening import TcpAddress
from plugbay.pods.record import PodRecord, Terminated, Waiting
from plugbay.pods.status import phase
from plugbay.testing.local.expectations import ExpectationFailed
from plugbay.testing.local.pods import FinishedPod

NODE_NAME: Final = "test-node"


@asynccontextmanager
async def node_life(
    config: ManagerConfig,
    start: Callable[..., AbstractAsyncContextManager[DeviceManager]],
    *,
    environ: Mapping[str, str],
    clock: Clock,
    api: TcpAddress | None,
) -> AsyncIterator[RunningNode]:
    """A node with the settings of ``config`` while the block runs.

    Args:
        api: where it serves its API over TCP, if it does.
        start: `run_manager`, with what a test does to the manager's surroundings.
    """
    settings = NodeConfig(
        config.paths.root,
        NODE_NAME,
        call_timeout_s=config.call_timeout_s,
        grace_period_s=config.grace_period_s,
        gates=config.gates,
        topology=config.topology,
        fake_numa_nodes=len(config.numa.nodes),
        api=api,
    )
    async with open_node(settings, environ=environ, clock=clock, start_manager=start) as node:
        yield node


async def run_on(node: RunningNode, pod: Pod, *, within_s: float) -> FinishedPod:
    """Run a pod to its end.

    Raises:
        PodExists, InvalidManifest: the node does not take it.
        ExpectationFailed: it has not ended in time; the text says what it waits for.
    """
    uid = (await node.engine.create(pod)).uid
    try:
        async with asyncio.timeout(within_s):
            subscription = node.pods.watch()
            while not node.pods[uid].has_stopped:
                await subscription.next()
    except TimeoutError:
        raise ExpectationFailed(await _unfinished(node, node.pods[uid], within_s)) from None
    return await _finished(node, node.pods[uid])


async def delete_pods(node: RunningNode) -> None:
    """Kill and delete all pods, and wait until they are gone."""
    subscription = node.pods.watch()
    for record in tuple(node.pods):
        with suppress(PodNotFound):
            await node.engine.delete(record.pod.namespace, record.pod.name, grace_s=0)
    while tuple(node.pods):
        await subscription.next()


async def _finished(node: RunningNode, record: PodRecord) -> FinishedPod:
    refusal = record.rejection or record.failure
    ends = {name: each.state for name, each in record.containers.items() if isinstance(each.state, Terminated)}
    return FinishedPod(
        record.pod.name,
        phase(record).value,
        refusal.reason if refusal else "",
        refusal.message if refusal else "",
        {name: end.exit_code for name, end in ends.items()},
        await _logs(node, record),
    )


async def _logs(node: RunningNode, record: PodRecord) -> dict[str, str]:
    """The output of the newest instance of each container."""
    logs = {}
    for name, container in record.containers.items():
        if not isinstance(container.state, Waiting) and container.state.id is not None:
            pieces = [piece async for piece in node.runtime.log(container.state.id)]
            logs[str(name)] = b"".join(pieces).decode(errors="backslashreplace")
    return logs


async def _unfinished(node: RunningNode, record: PodRecord, within_s: float) -> str:
    states = [f"  {name}: {type(each.state).__name__.lower()}" for name, each in record.containers.items()]
    waiting = [record.unschedulable] if record.unschedulable else []
    logs = [f"  | {line}" for text in (await _logs(node, record)).values() for line in text.splitlines()[-20:]]
    return "\n".join([f"pod {record.pod.name} has not ended within {within_s:g} s", *waiting, *states, *logs])
