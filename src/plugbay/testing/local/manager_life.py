"""One life of a kubelet for tests: a Device Manager from its start to its end, with its PodResources service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.serving.podresources import serve_pod_resources
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import background
from plugbay.testing.local.switchboard import Switchboard


@asynccontextmanager
async def manager_life(
    config: ManagerConfig, *, clock: Clock, changes: Changes, switchboard: Switchboard
) -> AsyncIterator[DeviceManager]:
    """Run a manager until the block ends; ``changes`` are told of each of its own."""
    async with (
        run_manager(
            config,
            clock=clock,
            transport=switchboard.transport,
            prepare=switchboard.prepare,
            crashes=lambda: switchboard.is_crashing,
            endpoints=switchboard.endpoints,
        ) as manager,
        serve_pod_resources(
            config.paths.pod_resources_socket,
            manager.pod_resources(),
            manager.admitted_pods,
            clock=clock,
            gates=config.gates,
        ),
        background(_tell(manager, changes), name="changes of the manager"),
    ):
        yield manager


async def _tell(manager: DeviceManager, changes: Changes) -> None:
    async for _ in manager.changes():
        changes.notify()
