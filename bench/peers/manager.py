"""A manager process that measures itself: ``python -m bench.peers.manager TASK ROOT DEVICES COUNT``.

It begins when a plugin with DEVICES devices has registered, and prints what it measured. It ends by itself; the task
``start`` when its input does.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.serving.snapshot import ResourceCount
from plugbay.manager.state import HeldDevices
from plugbay.manager.store.commits import SaveAssignments
from plugbay.manager.store.store import open_store
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.ops.clock import SystemClock
from plugbay.wire.plugin_client import PluginClient

RESOURCE: Final = ResourceName("example.com/unit")
FIRST_DEVICE: Final = DeviceId("unit-00000")
BARE_CALLS: Final = 200
DIAL_TIMEOUT_S: Final = 10


async def admit(manager: DeviceManager, count: int) -> None:
    """COUNT pods of one device, one after the other."""
    pods = [pod(f"pod-{number}") for number in range(count)]
    say(admission=[await timed(manager.admit(request)) for request in pods])
    say(rss_mb=rss_mb())


async def prefer(manager: DeviceManager, count: int) -> None:
    """One device out of all of them, COUNT times."""
    taken = []
    for _ in range(count):
        taken.append(await timed(manager.admit(pod("p"))))
        await manager.release_pod(PodUid("p"))
    say(admission=taken)


async def follow(manager: DeviceManager, count: int) -> None:
    """Print the moment of each change of health, COUNT times."""
    say(following=True)
    seen = manager.resources()[RESOURCE]
    async for _ in manager.changes():
        if manager.resources()[RESOURCE] != seen:
            seen = manager.resources()[RESOURCE]
            say(handled=time.monotonic())
            count -= 1
        if not count:
            return


async def bare_allocates(config: ManagerConfig) -> list[float]:
    """Of the first device, at the plugin's socket."""
    [socket] = (path for path in config.paths.device_plugins.iterdir() if path.is_socket())
    client = PluginClient(socket)
    try:
        await client.connect(DIAL_TIMEOUT_S)
        return [await timed(client.allocate([FIRST_DEVICE])) for _ in range(BARE_CALLS)]
    finally:
        await client.close()


async def bare_commits(config: ManagerConfig) -> list[float]:
    """Of one assignment each, in a store of its own beside the manager's."""

    def change(number: int) -> SaveAssignments:
        by_node = {0: (FIRST_DEVICE,)}
        return SaveAssignments(
            (HeldDevices(PodUid(f"pod-{number}"), ContainerName("app"), RESOURCE, by_node, b"\n\x10" + b"x" * 16),)
        )

    async with open_store(config.store.with_name("bare.db")) as store:
        return [await timed(store.commit([change(number)])) for number in range(BARE_CALLS)]


async def timed(work: Awaitable[object]) -> float:
    """How long it takes, in ms."""
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000


def pod(uid: str) -> PodRequest:
    container = ContainerRequest(ContainerName("app"), ContainerKind.APP, {RESOURCE: 1})
    return PodRequest(PodUid(uid), "default", uid, (container,))


def rss_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError("no VmRSS")


def say(**members: object) -> None:
    print(json.dumps(members), flush=True)


async def main(task: str, root: Path, devices: int, count: int) -> None:
    config = ManagerConfig(KubeletPaths(root), root / "state" / "manager.db")
    async with run_manager(config, clock=SystemClock()) as manager:
        say(serving=time.monotonic())
        if task == "start":
            await asyncio.to_thread(sys.stdin.read)
            return
        async for _ in manager.changes():
            if manager.resources().get(RESOURCE) == ResourceCount(devices, devices):
                break
        await {"admit": admit, "prefer": prefer, "follow": follow}[task](manager, count)
    if task == "admit":  # not before the manager has ended: what its view still does would slow the parts down
        say(allocate_rpc=await bare_allocates(config))
        say(commit=await bare_commits(config))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
