"""A manager process with Deallocate on: ``python -m bench.peers.releasing ROOT DEVICES COUNT``.

When a plugin with DEVICES devices has registered, it admits a pod, ends its container and releases it, COUNT times, and
prints how long it took from there until the device was free again.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

from bench.peers.manager import RESOURCE, pod, say, timed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.gates import parse_feature_gates
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.serving.snapshot import ResourceCount
from plugbay.ops.clock import SystemClock

WARM_UP: Final = 20


async def ends(manager: DeviceManager, count: int, all_free: ResourceCount) -> list[float]:
    return [await end(manager, f"pod-{number}", all_free) for number in range(count)]


async def end(manager: DeviceManager, uid: str, all_free: ResourceCount) -> float:
    request = pod(uid)
    await manager.admit(request)

    async def until_free() -> None:
        manager.container_ended(request.uid, request.containers[0].name, f"{uid}-instance")
        await manager.release_pod(request.uid)
        await until(manager, all_free)

    return await timed(until_free())


async def until(manager: DeviceManager, wanted: ResourceCount) -> None:
    async for _ in manager.changes():
        if manager.resources().get(RESOURCE) == wanted:
            return


async def main(root: Path, devices: int, count: int) -> None:
    gates = parse_feature_gates("DeviceManagerDeallocate=true")
    config = ManagerConfig(KubeletPaths(root), root / "state" / "manager.db", gates=gates)
    async with run_manager(config, clock=SystemClock()) as manager:
        say(serving=True)
        all_free = ResourceCount(devices, devices)
        await until(manager, all_free)
        await ends(manager, WARM_UP, all_free)
        taken = await ends(manager, count, all_free)
    say(free_again=taken)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
