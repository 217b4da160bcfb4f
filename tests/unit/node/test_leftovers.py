"""Containers that belong to no pod are removed, also when the engine refuses at first."""

from __future__ import annotations

from pathlib import Path

from plugbay.errors import RpcFailed
from plugbay.model.ids import ContainerName, PodUid
from plugbay.node.leftovers import RETRY_S
from plugbay.node.runtimes.port import ContainerId, ContainerState, RunState
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.fake_runtime import FakeRuntime

LEFT = ContainerId("left")


class Reluctant(FakeRuntime):
    """Attributes:
    refuses: so many times a removal fails.
    """

    refuses = 1

    async def remove(self, container: ContainerId) -> None:
        if self.refuses:
            self.refuses -= 1
            raise RpcFailed("Unknown", "it is busy")
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
