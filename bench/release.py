"""Releases on a manager that never calls Deallocate: what they cost an Allocate, and how late they come."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import Enum, auto
from pathlib import Path

from bench.figures import Figure, Pace
from bench.processes import python, rss_mb
from plugbay import Assignment, Device, DevicePlugin
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.serving.podresources import serve_pod_resources
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.ops.clock import SystemClock
from plugbay.sdk.author.release_settings import ReleaseSettings, ReleaseSource
from plugbay.sdk.release.evidence.pod_lists import Shared
from plugbay.sdk.release.uses import GRACE_S
from plugbay.sdk.serving.server import PluginServer
from plugbay.sdk.watching import watching

RESOURCE = ResourceName("example.com/gopher")
BADGER = ResourceName("example.com/badger")
DEVICE = DeviceId("a")
PROGRAM = """
import sys
from plugbay import Device, DevicePlugin, run

class Gophers(DevicePlugin):
    resource_name = "example.com/gopher"

    def discover(self):
        return [Device("a")]

    async def noted(self, assignment):
        pass

    if sys.argv[2] == "with":
        release = noted

run(Gophers(), argv=["--root", sys.argv[1]])
"""


class Known(Enum):
    """What is known of the use that an Allocate finds."""

    SEEN = auto()
    """A look at the checkpoint has found it meanwhile, as of most pods, which live for longer than some seconds: one
    that lacks it shows that it is over. The target is for this."""
    UNSEEN = auto()
    """None has yet, as of pods that live for less than an interval: it takes two."""


class Gophers(DevicePlugin):
    resource_name = RESOURCE

    def __init__(self) -> None:
        self.released = asyncio.Event()

    def discover(self) -> Sequence[Device]:
        return [Device("a")]

    async def release(self, assignment: Assignment) -> None:
        self.released.set()


class Badgers(Gophers):
    """A second resource of the process, which hears of starts of containers."""

    resource_name = BADGER

    async def post_stop(self, assignment: Assignment) -> None:
        """Only to be asked for."""


class KnownPods:
    """The pods that PodResources tells of: one without devices."""

    def active_pods(self) -> Sequence[PodRequest]:
        return [_pod("others", count=0)]

    all_pods = active_pods


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    many, times = (20, 1) if pace is Pace.QUICK else (200, 3)
    never_looks, off = ReleaseSettings(interval_s=1000), ReleaseSettings(source=ReleaseSource.OFF)
    async with _served(never_looks) as (_, server, _), _served(off) as (_, server_without, _):
        yield Figure("release_allocate_open_seen_ms", await _allocate_open_ms(server, many, Known.SEEN), "ms", 12)
        yield Figure("release_allocate_open_unseen_ms", await _allocate_open_ms(server, many, Known.UNSEEN), "ms", None)
        with_it, without = await _allocate_ms(server, server_without, many * 10)
        yield Figure("release_allocate_off_ms", without, "ms", None)
        yield Figure("release_allocate_ms", with_it - without, "ms", 0.05)
    worst = max(await _detected_s(ReleaseSettings(interval_s=1), times, seen_after_s=1.5, apart_s=0.3))
    yield Figure("release_detected_1s", worst, "s", 2)
    if pace is Pace.FULL:
        detected = await _detected_s(ReleaseSettings(), times, seen_after_s=31, apart_s=7)
        yield Figure("release_detected_default_p50", statistics.median(detected), "s", None)
        yield Figure("release_detected_default", max(detected), "s", 35)
    rss = {how: [await _rss_mb(how) for _ in range(times)] for how in ("with", "without")}
    yield Figure("release_rss_mb", statistics.median(rss["with"]) - statistics.median(rss["without"]), "MiB", 2)


def _pod(uid: str, resource: ResourceName = RESOURCE, *, count: int = 1) -> PodRequest:
    limits = {resource: count} if count else {}
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
        shared = Shared(settings, paths)
        async with _managed(paths.root) as manager, watching() as watches, asyncio.TaskGroup() as tasks:
            servers = [PluginServer(plugin, paths, shared=shared) for plugin in (gophers, Badgers())]
            running = [tasks.create_task(server.run(watches)) for server in servers]
            await _until_listed(manager, RESOURCE, BADGER)
            yield manager, servers[0], gophers
            for server in servers:
                server.stop()
            await asyncio.gather(*running)


async def _until_listed(manager: DeviceManager, *resources: ResourceName) -> None:
    async for _ in manager.changes():
        counts = manager.resources()
        if all(each in counts and counts[each].allocatable for each in resources):
            return


async def _allocate_open_ms(server: PluginServer, many: int, known: Known) -> float:
    """Of an Allocate whose device an ended pod had: a list, a checkpoint or two, a release."""
    release = server.release
    assert release is not None
    taken: list[float] = []
    for _ in range(many + 1):
        began = time.perf_counter()
        await server.counted.allocate([DEVICE])
        taken.append((time.perf_counter() - began) * 1000)
        if known is Known.SEEN:
            for use in release.ledger.uses():
                release.ledger.change(replace(use, seen_in=use.life, since=use.since - GRACE_S))
        await asyncio.sleep(0.02)
    for use in release.ledger.uses():
        release.ledger.close_use(use.key)
    return statistics.median(taken[1:])  # the first one had nothing to wait for


async def _allocate_ms(server: PluginServer, without: PluginServer, many: int) -> tuple[float, float]:
    """An Allocate that has nothing to wait for, with and without the feature, turn by turn."""
    release = server.release
    assert release is not None
    taken: dict[PluginServer, list[float]] = {server: [], without: []}
    for _ in range(many):
        for each, times in taken.items():
            began = time.perf_counter()
            await each.counted.allocate([DEVICE])
            times.append((time.perf_counter() - began) * 1000)
        for use in release.ledger.uses():
            release.ledger.close_use(use.key)
    return statistics.median(taken[server]), statistics.median(taken[without])


async def _detected_s(settings: ReleaseSettings, times: int, *, seen_after_s: float, apart_s: float) -> Sequence[float]:
    """From the end of a pod to the call of the hook, on so many nodes at once; the pods end at different moments, each
    right after the start of another one's container with another resource, for which the kubelet is asked for its pods.

    Args:
        seen_after_s: how long the first pod lives: as pods are, long enough for a look to have found it.
    """
    async with asyncio.TaskGroup() as tasks:
        each = [tasks.create_task(_once_detected_s(settings, seen_after_s + n * apart_s)) for n in range(times)]
    return [task.result() for task in each]


async def _once_detected_s(settings: ReleaseSettings, lives_s: float) -> float:
    async with _served(settings) as (manager, _, gophers):
        await manager.admit(_pod("p"))
        await asyncio.sleep(lives_s)
        await manager.admit(_pod("q", BADGER))
        await manager.prepare_container(PodUid("q"), ContainerName("app"))
        await manager.release_pod(PodUid("p"))
        began = time.perf_counter()
        await gophers.released.wait()
        return time.perf_counter() - began


async def _rss_mb(how: str) -> float:
    """Of a plugin after an Allocate whose device was in use before."""
    with tempfile.TemporaryDirectory(prefix="pb", dir="/tmp") as directory:
        async with _managed(Path(directory)) as manager, python("-c", PROGRAM, directory, how) as process:
            await _until_listed(manager, RESOURCE)
            for uid in "pq":
                await manager.admit(_pod(uid))
                await manager.release_pod(PodUid(uid))
            await asyncio.sleep(1)
            return rss_mb(process.pid)
