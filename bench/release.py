"""Releases on a manager that never calls Deallocate: what they cost an Allocate, and how late they come."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from bench.figures import Figure, Pace
from bench.processes import python, rss_mb
from plugbay import Assignment, Device, DevicePlugin
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.podresources import serve_pod_resources
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.ops.clock import SystemClock
from plugbay.sdk.release.quiet import Shared
from plugbay.sdk.release.settings import ReleaseSettings
from plugbay.sdk.server import PluginServer
from plugbay.sdk.watching import watching

RESOURCE = ResourceName("example.com/gopher")
PROGRAM = """
import sys
from plugbay import Device, DevicePlugin, run

class Gophers(DevicePlugin):
    resource_name = "example.com/gopher"

    def discover(self):
        return [Device("a")]

    async def noted(self, assignment):
        print(assignment)

    if sys.argv[2] == "with":
        release = noted

run(Gophers(), kubelet_root=sys.argv[1])
"""


class Gophers(DevicePlugin):
    resource_name = RESOURCE

    def __init__(self) -> None:
        self.released = asyncio.Event()

    def discover(self) -> Sequence[Device]:
        return [Device("a")]

    async def release(self, assignment: Assignment) -> None:
        self.released.set()


class KnownPods:
    """The pods that PodResources tells of: one without devices."""

    def active_pods(self) -> Sequence[PodRequest]:
        return [_pod("others", 0)]

    all_pods = active_pods


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    many = 20 if pace is Pace.QUICK else 200
    async with _served(ReleaseSettings(interval_s=1000)) as (manager, server, _):
        yield Figure("release_allocate_open_ms", await _allocate_open_ms(server, many), "ms", 12)
        yield Figure("release_allocate_ms", await _bookkeeping_ms(server, many * 5), "ms", 0.05)
    async with _served(ReleaseSettings(interval_s=1)) as (manager, _, gophers):
        yield Figure("release_detected_1s", await _detected_s(manager, gophers, 1.5), "s", 2)
    if pace is Pace.FULL:
        async with _served(ReleaseSettings()) as (manager, _, gophers):
            yield Figure("release_detected_default", await _detected_s(manager, gophers, 31), "s", 35)
    yield Figure("release_rss_mb", await _rss_mb("with") - await _rss_mb("without"), "MiB", 2)


def _pod(uid: str, count: int = 1) -> PodRequest:
    limits = {RESOURCE: count} if count else {}
    return PodRequest(PodUid(uid), "default", uid, (ContainerRequest(ContainerName("app"), ContainerKind.APP, limits),))


@asynccontextmanager
async def _managed(root: Path) -> AsyncIterator[DeviceManager]:
    config = ManagerConfig(KubeletPaths(root), root / "state" / "manager.db")
    clock = SystemClock()
    async with run_manager(config, clock=clock) as manager:
        socket = config.paths.pod_resources_socket
        async with serve_pod_resources(socket, manager.pod_resources(), KnownPods(), clock=clock):
            yield manager


@asynccontextmanager
async def _served(settings: ReleaseSettings) -> AsyncIterator[tuple[DeviceManager, PluginServer, Gophers]]:
    with tempfile.TemporaryDirectory(prefix="pb", dir="/tmp") as directory:
        paths, gophers = KubeletPaths(Path(directory)), Gophers()
        async with _managed(paths.root) as manager, watching() as watches, asyncio.TaskGroup() as tasks:
            server = PluginServer(gophers, paths, shared=Shared(settings, paths))
            running = tasks.create_task(server.run(watches))
            await _until_listed(manager)
            yield manager, server, gophers
            server.stop()
            await running


async def _until_listed(manager: DeviceManager) -> None:
    async for _ in manager.changes():
        if (count := manager.resources().get(RESOURCE)) and count.allocatable:
            return


async def _allocate_open_ms(server: PluginServer, many: int) -> float:
    """Of an Allocate whose device an ended pod had: a list, a checkpoint, a release."""
    custody = server.custody
    assert custody is not None
    taken: list[float] = []
    for _ in range(many + 1):
        began = time.perf_counter()
        async with custody.allocate({DeviceId("a"): DeviceId("a")}):
            pass
        taken.append((time.perf_counter() - began) * 1000)
        for use in custody.book.uses():  # a look at the checkpoint has found it meanwhile, as of most pods
            custody.book.change(replace(use, seen_in=use.life))
        await asyncio.sleep(0.02)
    return statistics.median(taken[1:])  # the first one had nothing to wait for


async def _bookkeeping_ms(server: PluginServer, many: int) -> float:
    """What an Allocate costs more that has nothing to wait for."""
    custody = server.custody
    assert custody is not None
    taken: list[float] = []
    for number in range(many):
        unit = DeviceId(f"fresh{number}")
        began = time.perf_counter()
        async with custody.allocate({unit: unit}):
            pass
        taken.append((time.perf_counter() - began) * 1000)
        for use in custody.book.of_units([unit]):
            custody.book.close_use(use.key)
    return statistics.median(taken)


async def _detected_s(manager: DeviceManager, gophers: Gophers, seen_after_s: float) -> float:
    """From the end of a pod to the call of the hook."""
    await manager.admit(_pod("p"))
    await asyncio.sleep(seen_after_s)  # a pod as pods are: a look has found it
    await manager.release_pod(PodUid("p"))
    began = time.perf_counter()
    await gophers.released.wait()
    return time.perf_counter() - began


async def _rss_mb(how: str) -> float:
    """Of a plugin after an Allocate whose device was in use before."""
    with tempfile.TemporaryDirectory(prefix="pb", dir="/tmp") as directory:
        async with _managed(Path(directory)) as manager, python("-c", PROGRAM, directory, how) as process:
            await _until_listed(manager)
            for uid in "pq":
                await manager.admit(_pod(uid))
                await manager.release_pod(PodUid(uid))
            await asyncio.sleep(1)
            return rss_mb(process.pid)
