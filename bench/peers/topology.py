"""A manager process with a topology policy: ``python -m bench.peers.topology POLICY ROOT DEVICES COUNT``.

On two NUMA nodes. When two plugins with DEVICES devices each have registered, it admits a pod of one device of each
and releases it, COUNT times, and prints how long the admissions took.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

from bench.peers.manager import RESOURCE, say, timed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.serving.snapshot import ResourceCount
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.model.topology import pretended_nodes
from plugbay.ops.clock import SystemClock
from plugbay.topology.settings import TopologySettings

OTHER: Final = ResourceName("example.com/other")
POD: Final = PodRequest(
    PodUid("p"),
    "default",
    "p",
    (ContainerRequest(ContainerName("app"), ContainerKind.APP, {RESOURCE: 1, OTHER: 1}),),
)
WARM_UP: Final = 20


async def admissions(manager: DeviceManager, count: int) -> list[float]:
    taken = []
    for _ in range(count):
        taken.append(await timed(manager.admit(POD)))
        await manager.release_pod(POD.uid)
    return taken


async def main(policy: str, root: Path, devices: int, count: int) -> None:
    config = ManagerConfig(
        KubeletPaths(root),
        root / "state" / "manager.db",
        topology=TopologySettings(policy),
        numa=pretended_nodes(2),
    )
    async with run_manager(config, clock=SystemClock()) as manager:
        say(serving=True)
        async for _ in manager.changes():
            if manager.resources() == dict.fromkeys((RESOURCE, OTHER), ResourceCount(devices, devices)):
                break
        await admissions(manager, WARM_UP)
        taken = await admissions(manager, count)
    say(admission=taken)  # not before the manager has ended: it would miss its plugins


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
