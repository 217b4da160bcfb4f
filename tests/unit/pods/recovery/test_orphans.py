"""What belongs to no pod is removed, also when the engine refuses at first, and before another pod has its UID."""

from __future__ import annotations

import asyncio
from pathlib import Path

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.ids import ContainerName, PodUid
from plugbay.pods.recovery.orphans import RETRY_S
from plugbay.pods.static.files import static_pod
from plugbay.pods.status import PodPhase
from plugbay.runtimes.port import ContainerId, ContainerState, RunState
from plugbay.runtimes.sandboxes import HostSandboxes
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.fake_runtime import FakeRuntime
from plugbay.testing.pod_values import container, is_in, pod

LEFT = ContainerId("left")


class Reluctant(FakeRuntime):
    """Attributes:
    refuses: so many times a removal fails.
    """

    refuses = 1

    async def remove(self, container: ContainerId) -> None:
        if self.refuses:
            self.refuses -= 1
            raise RpcFailed(RpcCode.UNKNOWN, "it is busy")
        await super().remove(container)


async def test_what_an_engine_does_not_remove_at_once_is_tried_again(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    node.runtime = Reluctant(node.clock, node.moved)
    node.runtime.instances[LEFT] = ContainerState(
        LEFT, PodUid("u"), ContainerName("c"), 0, RunState.RUNNING, pid=1, started_at=node.clock.now()
    )
    async with node.engine():
        await node.when(lambda: RETRY_S in node.clock.naps)
        assert node.runtime.instances
        node.clock.advance(RETRY_S)
        await node.when(lambda: not node.runtime.instances)


class SlowSandboxes(HostSandboxes):
    """Attributes:
    removing: set when a removal has begun.
    may_remove: while it is not set, removals wait.
    """

    def __init__(self) -> None:
        self.removing = asyncio.Event()
        self.may_remove = asyncio.Event()

    async def remove(self, pod: PodUid) -> None:
        self.removing.set()
        await self.may_remove.wait()


async def test_a_pod_of_a_manifest_begins_when_all_is_free_that_it_held_before_it_was_forgotten(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    node.sandboxes = sandboxes = SlowSandboxes()
    static = static_pod(pod(container("c", gophers=1)), path=tmp_path / "p.yaml", node="n1")
    node.devices.offer(1)
    node.devices.held[static.uid] = frozenset()  # and the node's store is another one
    async with node.engine() as engine:
        await sandboxes.removing.wait()
        await engine.create_static(static)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not node.runtime.started
        sandboxes.may_remove.set()
        await node.until(is_in(PodPhase.RUNNING), name=static.name)
        assert static.uid in node.devices.held
