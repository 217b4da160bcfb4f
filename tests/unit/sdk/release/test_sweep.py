"""How often is looked, and how late an end is found."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugbay import Assignment, Device, DevicePlugin, Origin
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.podresources import PodResources
from plugbay.sdk.author.plugin import resource_of
from plugbay.sdk.author.release_settings import ReleasePolicy, ReleaseSettings
from plugbay.sdk.hooks.turns import Turns
from plugbay.sdk.release.evidence.pod_lists import Shared
from plugbay.sdk.release.hooks import ReleaseHooks
from plugbay.sdk.release.release import Release
from plugbay.sdk.release.sweep import jittered
from plugbay.sdk.release.uses import KubeletLife, Reading, Use
from plugbay.wire.plugin_server import Caller
from tests.unit.sdk.release.test_journal import full_after
from tests.unit.sdk.virtual_loop import VirtualLoop

UNIT = DeviceId("a")
HOLDER = frozenset({(PodUid("p"), ContainerName("app"))})
LIFE = KubeletLife("1", 0.0)
FOUND_S = {30.0: 35.0, 1.0: 2.0}
"""By the interval, how late the end of a pod may be found."""
SOONEST = 0.8
"""Of the interval: the shortest time between two looks."""


def test_interval_varies_and_no_look_comes_late() -> None:
    waits = [jittered(30.0) for _ in range(200)]
    assert all(24.0 <= wait <= 30.0 for wait in waits)
    assert max(waits) - min(waits) > 1.0


class Node:
    """A kubelet that notices the end of a pod when it is asked for its pods, and one process of plugins."""

    def __init__(self, directory: Path, interval_s: float) -> None:
        paths = KubeletPaths(directory)
        self.shared = Shared(ReleaseSettings(interval_s=interval_s), paths)
        self.shared.pod_lists._ask = self._ask  # type: ignore[method-assign]  # no socket to ask
        self.paths = paths
        self.asked_at: list[float] = []
        self.ended: set[ResourceName] = set()
        self.noticed: set[ResourceName] = set()
        self.released: dict[ResourceName, float] = {}

    async def _ask(self) -> Sequence[PodResources]:
        self.asked_at.append(asyncio.get_running_loop().time())
        self.noticed |= self.ended
        await asyncio.sleep(0.1)
        return (PodResources("default", "other"),)


class Cleaner(DevicePlugin):
    def __init__(self, name: str, node: Node) -> None:
        self.resource_name = name
        self._node = node

    def discover(self) -> Sequence[Device]:
        return [Device(UNIT)]

    async def release(self, assignment: Assignment) -> None:
        self._node.released[assignment.resource] = asyncio.get_running_loop().time()


async def read(node: Node, resource: ResourceName, uses: Collection[Use]) -> Reading:
    await asyncio.sleep(0.01)
    listed = {} if resource in node.noticed else {UNIT: HOLDER}
    return Reading(asyncio.get_running_loop().time(), LIFE, listed)


class Stuck(Cleaner):
    """It cannot be given away unreleased, and its release always fails."""

    release_policy = ReleasePolicy.STRICT

    async def release(self, assignment: Assignment) -> None:
        raise OSError("no such bus")


@asynccontextmanager
async def plugins(node: Node, count: int, kind: type[Cleaner] = Cleaner) -> AsyncIterator[Sequence[Release]]:
    """So many, each with a device in use since some moment of the last interval."""
    releases = []
    async with AsyncExitStack() as stack:
        for number in range(count):
            hooks = ReleaseHooks()
            plugin = kind(f"example.com/p{number}", node)
            release = Release(plugin, node.paths, node.shared, hooks, starting=Turns(), resend=lambda: 1)
            release.evidence.read = partial(read, node, resource_of(plugin))  # type: ignore[method-assign]  # no kubelet
            release.ledger.open()
            stack.callback(release.close)
            running = [asyncio.ensure_future(hooks.run()), asyncio.ensure_future(release.sweep.run())]
            stack.push_async_callback(asyncio.wait, running)
            for task in running:
                stack.callback(task.cancel)
            releases.append(release)
        for release in releases:
            await asyncio.sleep(random.uniform(0, node.shared.settings.interval_s / count))
            async with release.giving({UNIT: UNIT}):
                pass
        yield releases


@pytest.mark.parametrize("interval_s", FOUND_S)
@settings(max_examples=settings().max_examples // 3)
@given(
    count=st.integers(1, 4),
    lives=st.lists(st.floats(1.2, 4), min_size=4, max_size=4),
    starts=st.lists(st.floats(0, 5), max_size=8),
    seed=st.integers(0, 99),
)
def test_end_is_found_in_time_whoever_asks_for_the_pods_meanwhile(
    tmp_path_factory: pytest.TempPathFactory,
    interval_s: float,
    count: int,
    lives: list[float],
    starts: list[float],
    seed: int,
) -> None:
    """
    Args:
        lives: of the pods, in intervals.
        starts: of containers, before which the pods are asked for as well, in intervals.
    """
    random.seed(seed)
    node = Node(tmp_path_factory.mktemp("kubelet"), interval_s)
    loop = VirtualLoop()

    async def asks() -> None:
        await node.shared.pod_lists.pods(asked_since=loop.time())

    async def played() -> None:
        async with plugins(node, count) as releases:
            begun, ends = loop.time(), {}
            for release, life in zip(releases, lives, strict=False):
                ends[release.context.resource] = begun + life * interval_s
                loop.call_at(ends[release.context.resource], node.ended.add, release.context.resource)
            tasks = []
            for start in starts:
                loop.call_at(begun + start * interval_s, lambda: tasks.append(asyncio.ensure_future(asks())))
            await asyncio.sleep(6 * interval_s + 10)
            assert {found: at - ends[found] > FOUND_S[interval_s] for found, at in node.released.items()} == (
                dict.fromkeys(ends, False)
            )
            assert not any(release.ledger.uses() for release in releases)

    try:
        loop.run_until_complete(played())
    finally:
        loop.end()


def test_pods_are_asked_for_once_for_all_resources(loop: VirtualLoop, tmp_path: Path) -> None:
    random.seed(0)
    node = Node(tmp_path, 30.0)

    async def played() -> None:
        async with plugins(node, 4):
            await asyncio.sleep(100)  # until they look together
            before = len(node.asked_at)
            await asyncio.sleep(300)
            assert len(node.asked_at) - before <= 300 / (30 * SOONEST) + 1
            assert len(node.asked_at) - before >= 300 / 30 - 1

    loop.run_until_complete(played())


def test_full_disk_leaves_the_kubelet_alone(loop: VirtualLoop, tmp_path: Path) -> None:
    """What is read cannot be written down, while a release that failed is to be tried again."""
    random.seed(0)
    node, other = Node(tmp_path, 30.0), DeviceId("b")

    async def played() -> None:
        async with plugins(node, 1, Stuck) as [release]:
            async with release.giving({other: other}):
                pass
            [use] = release.ledger.of_units([other])
            release.ledger.end(use.key, Origin.SYNTHESISED)
            with full_after(0):
                await asyncio.sleep(300)
            assert len(node.asked_at) <= 60

    loop.run_until_complete(played())


def test_pods_that_cannot_be_asked_for_are_told_once(
    loop: VirtualLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared = Shared(ReleaseSettings(asks=True), KubeletPaths(tmp_path))
    socket = shared.pod_lists._socket

    async def asked() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            assert await shared.pod_lists.pods(asked_since=loop.time()) == ()

    loop.run_until_complete(asked())
    assert shared.pod_lists.problem == f"there is no {socket}"
    assert [record.getMessage() for record in caplog.records] == [
        f"there is no {socket}; so the kubelet notices that a pod has ended only when the next pod with devices comes"
    ]


async def test_only_a_manager_whose_lists_change_nothing_is_asked_for_its_pods(tmp_path: Path) -> None:
    """A kubelet that is asked while it waits for anybody's Allocate may give a device to two pods (spec 4.9.2)."""
    paths = KubeletPaths(tmp_path)
    paths.device_plugins.mkdir()
    lists = Shared(ReleaseSettings(), paths).pod_lists
    ours = Caller(lists_only_read=True)
    lists.heed(ours)
    assert not lists.may_be_asked  # there is none
    for caller, may_be_asked in ((Caller(), False), (ours, True)):
        fresh = tmp_path / "fresh"
        fresh.touch()
        fresh.rename(paths.registration_socket)  # another life
        assert not lists.may_be_asked
        lists.heed(caller)
        assert lists.may_be_asked is may_be_asked
    lists.heed(Caller())
    assert await lists.pods(asked_since=asyncio.get_running_loop().time()) == ()
    assert lists.problem == "the kubelet is not asked for its pods, as --release-ask is not given"
