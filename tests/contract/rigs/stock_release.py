"""What tests share of releases on a manager that never calls Deallocate, as no kubelet does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from plugbay import Assignment, Device, DevicePlugin, ReleasePolicy
from plugbay.kernel.watch import watch_paths
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.serving.podresources import serve_pod_resources
from plugbay.model.requests import ContainerKind, PodRequest
from plugbay.sdk.author.release_settings import ReleaseSettings, ReleaseSource
from plugbay.sdk.release.evidence.pod_lists import Shared
from plugbay.sdk.release.ledger import lines as records
from plugbay.sdk.serving.server import PluginServer
from tests.contract.rigs.manager import DEADLINE_S, GOPHER, Bench, bench, container, pod
from tests.contract.rigs.serving import running

OTHERS = PodRequest(pod("others").uid, "default", "others", (container("app"),))
"""A pod without devices: PodResources tells of it as well."""


class Gophers(DevicePlugin):
    """Notes what its hooks are told."""

    resource_name = GOPHER
    release_policy = ReleasePolicy.STRICT

    def __init__(self, *names: str) -> None:
        self.names = names
        self.told: list[str] = []
        self.released: list[Assignment] = []
        self.news = asyncio.Event()
        self.problem = ""

    def discover(self) -> Sequence[Device]:
        return [Device(name) for name in self.names]

    async def release(self, assignment: Assignment) -> None:
        self.told.append(f"release {','.join(assignment.units)}")
        self.released.append(assignment)
        self.news.set()
        if self.problem:
            raise RuntimeError(self.problem)

    async def until_told(self, *wanted: str) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while self.told != list(wanted):
                self.news.clear()
                await self.news.wait()


class Stopping(Gophers):
    async def post_stop(self, assignment: Assignment) -> None:
        self.told.append(f"post_stop {','.join(assignment.units)}")
        self.news.set()


class Pods:
    """The pods that a kubelet knows."""

    def __init__(self, *pods: PodRequest) -> None:
        self.pods = list(pods)

    def active_pods(self) -> Sequence[PodRequest]:
        return self.pods

    def all_pods(self) -> Sequence[PodRequest]:
        return self.pods


@asynccontextmanager
async def served(
    gophers: DevicePlugin, root: Path, interval_s: float = 0.2, source: ReleaseSource = ReleaseSource.AUTO
) -> AsyncIterator[PluginServer]:
    paths = KubeletPaths(root)
    shared = Shared(ReleaseSettings(source=source, interval_s=interval_s), paths)
    async with running(PluginServer(gophers, paths, shared=shared)) as server:
        yield server


@asynccontextmanager
async def stock(root: Path, gophers: Gophers, interval_s: float = 0.2) -> AsyncIterator[Bench]:
    """A manager with PodResources, and the plugin."""
    async with bench(root) as b:
        pods = Pods(OTHERS)
        async with (
            serve_pod_resources(b.paths.pod_resources_socket, b.manager.pod_resources(), pods, clock=b.clock),
            served(gophers, root, interval_s),
        ):
            await b.counts(len(gophers.names), len(gophers.names))
            yield b


def journal(root: Path, resource: str = GOPHER) -> Path:
    return root / "device-plugins" / ".plugbay" / f"{resource.replace('/', '_')}.journal"


async def until_seen(root: Path, *units: str) -> None:
    """Wait until a look at the checkpoint has found all these in use."""
    await until_said(lambda: seen_units(root) >= set(units))


async def until_said(condition: Callable[[], bool]) -> None:
    """Wait until ``condition``, which something in the log of releases comes with."""
    looked = asyncio.Event()
    handler = logging.Handler()
    handler.emit = lambda record: looked.set()  # type: ignore[method-assign]
    releases = logging.getLogger("plugbay.sdk.release")
    releases.setLevel(logging.DEBUG)
    releases.addHandler(handler)
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await looked.wait()
                looked.clear()
    finally:
        releases.removeHandler(handler)


def seen_units(root: Path) -> set[str]:
    return seen_in(journal(root))


def seen_in(kept: Path) -> set[str]:
    """The units of the uses in a journal that a look at the checkpoint has found."""
    return {unit for use in records.read(kept.read_bytes()).uses if use.seen_in for unit in use.units}


async def until_kept(kept: Path, *units: str) -> None:
    """Wait until another process, whose journal this is, has found all these in use."""
    await until_files([kept], lambda: kept.exists() and seen_in(kept) >= set(units))


async def until_files(paths: Sequence[Path], condition: Callable[[], bool]) -> None:
    """Wait until ``condition``, which comes with a change of one of ``paths``."""
    async with watch_paths(paths) as changes, asyncio.timeout(DEADLINE_S):
        while not condition():
            await anext(changes)


def with_init(uid: str) -> PodRequest:
    return pod(uid, container("init", ContainerKind.INIT, gopher=1), container("app", gopher=1))
