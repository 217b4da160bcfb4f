"""A runtime on a scripted engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError
from plugbay.model.cri import CgroupDriver, EngineVersion
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.images import PullPolicy
from plugbay.runtimes.cri.config import Conventions
from plugbay.runtimes.cri.engine import EngineTraits
from plugbay.runtimes.cri.runtime import CriEngine, CriRuntime
from plugbay.runtimes.cri.sandboxes import CriSandboxes
from plugbay.runtimes.port import ContainerSpec, Notice
from plugbay.testing.clock import ManualClock
from plugbay.wire.cri import CriClient
from tests.container_specs import container_spec, sandbox_spec
from tests.unit.runtimes.cri.scripted_engine import ScriptedEngine

UID = PodUid("0c1-2")
SPEC = container_spec(
    uid=UID,
    namespace="ns",
    name=ContainerName("main"),
    image="img:1",
    command=("run",),
    args=(),
    pull_policy=PullPolicy.IF_NOT_PRESENT,
)
TRAITS = EngineTraits(EngineVersion("containerd", "1.6.20"), CgroupDriver.CGROUPFS, injects_cdi=False)


class Runtime(CriRuntime):
    """The runtime with a pod's sandbox to hand, and what it tells."""

    def __init__(self, client: CriClient, conventions: Conventions, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.sandboxes = CriSandboxes(client, conventions)
        super().__init__(CriEngine(client, TRAITS, ()), self.sandboxes, conventions, self.clock)
        self.told: list[Notice] = []

    async def tries(self, spec: ContainerSpec) -> str:
        """The reason why it does not start, and what was told; empty when it might."""
        self.told.clear()
        try:
            await self.prepare(spec, self.told.append)
        except ContainerStartError as error:
            return error.reason
        return ""

    @property
    def reasons(self) -> list[str]:
        return [each.reason for each in self.told]


@pytest.fixture
async def runtime(client: CriClient, conventions: Conventions) -> Runtime:
    made = Runtime(client, conventions)
    await made.sandboxes.run(sandbox_spec(UID, "ns", "web"))
    return made


def mounts(engine: ScriptedEngine) -> dict[str, Path]:
    """Of the newest container."""
    return {each.container_path: Path(each.host_path) for each in engine.asked("CreateContainer")[-1].config.mounts}
