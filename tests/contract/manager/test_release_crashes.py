"""What a SIGKILL leaves of PostStopContainer and Deallocate: each is made, repeats have the same operation, and no
device is given out before (number 10 of the proposal's list of tests, spec 12.12).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay.errors import RpcCode
from plugbay.manager.crash_points import CrashPoint
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.model.releases import ReleaseReason
from plugbay.testing.fakes.plugin import FakePlugin, Released, refusing
from tests.contract.manager.test_durability import (
    DEADLINE_S,
    DEVICES,
    Killed,
    Ledger,
    ManagerProcess,
    be_a_client,
    manager_process,
)
from tests.contract.rigs.release import BOTH

GATE = "DeviceManagerDeallocate=true"


@asynccontextmanager
async def running(root: Path, *fate: str) -> AsyncIterator[ManagerProcess]:
    async with manager_process(root, *fate, options=BOTH, gates=GATE) as manager:
        yield manager
        if manager.process.returncode is None:
            await manager.stop()


async def dies(manager: ManagerProcess) -> None:
    async with asyncio.timeout(DEADLINE_S):
        assert await manager.process.wait() == -signal.SIGKILL


async def end_pod(manager: ManagerProcess) -> None:
    """What a node does when a pod's container has ended, and does again after a restart."""
    await manager.ask("ended", pod="p", instance="i1")
    await manager.ask("release", pod="p")


async def check_all_is_free(manager: ManagerProcess) -> None:
    await manager.ask("settled")
    answer = await manager.ask("admit", pod="all", count=DEVICES)
    assert "held" in answer, answer
    await manager.ask("release", pod="all")


@pytest.mark.parametrize(
    ("point", "number", "stops", "deallocations"),
    [
        pytest.param(CrashPoint.QUEUING, 1, 1, 1, id="exit-seen"),
        pytest.param(CrashPoint.QUEUED, 1, 1, 1, id="post-stop-recorded"),
        pytest.param(CrashPoint.CALLING_POST_STOP, 1, 1, 1, id="before-post-stop"),
        pytest.param(CrashPoint.CALLED_POST_STOP, 1, 2, 1, id="after-post-stop"),
        pytest.param(CrashPoint.SETTLING, 1, 2, 1, id="before-it-is-forgotten"),
        pytest.param(CrashPoint.SETTLED, 1, 1, 1, id="after-it-is-forgotten"),
        pytest.param(CrashPoint.RELEASING, 1, 1, 1, id="before-release"),
        pytest.param(CrashPoint.RELEASED, 1, 1, 1, id="after-release"),
        pytest.param(CrashPoint.CALLING_DEALLOCATE, 1, 1, 1, id="before-deallocate"),
        pytest.param(CrashPoint.CALLED_DEALLOCATE, 1, 1, 2, id="after-deallocate"),
        pytest.param(CrashPoint.SETTLING, 2, 1, 2, id="before-that-is-forgotten"),
        pytest.param(CrashPoint.SETTLED, 2, 1, 1, id="after-that-is-forgotten"),
    ],
)
async def test_10_kill_at_the_end_of_a_pod(
    sockets: Path, point: CrashPoint, number: int, stops: int, deallocations: int
) -> None:
    async with running(sockets, point.value, str(number)) as manager:
        await manager.ask("admit", pod="p", count=2)
        with pytest.raises(Killed):
            await end_pod(manager)
        await dies(manager)
        before = manager.plugin
    async with running(sockets) as manager:
        await end_pod(manager)
        await manager.ask("settled")
        seen = calls(before) + calls(manager.plugin)
        await check_all_is_free(manager)
    posts = [each for each in seen if each.reason is None]
    deallocates = [each for each in seen if each.reason is not None]
    # A call that was broken off by the kill may have reached the plugin or not.
    slack = {CrashPoint.RELEASING: 1, CrashPoint.RELEASED: 1}.get(point, 0)
    assert stops <= len(posts) <= stops + slack
    assert len(deallocates) == deallocations
    assert len({each.operation for each in posts}) == 1
    assert len({each.operation for each in deallocates}) == 1
    assert {each.devices for each in seen} == {("g0", "g1")}
    assert seen.index(deallocates[0]) > max(index for index, each in enumerate(seen) if each.reason is None)


def calls(plugin: FakePlugin) -> list[Released]:
    """PostStopContainer and Deallocate, in order."""
    stops, deallocations = iter(plugin.post_stopped), iter(plugin.deallocated)
    by_name = {"PostStopContainer": stops, "Deallocate": deallocations}
    return [next(by_name[call]) for call in plugin.calls if call in by_name]


@pytest.mark.parametrize(
    ("point", "is_taken_back", "is_kept"),
    [
        pytest.param(CrashPoint.INTENDING, False, False, id="before-intent"),
        pytest.param(CrashPoint.INTENDED, True, False, id="after-intent"),
        pytest.param(CrashPoint.ALLOCATING, True, False, id="before-allocate"),
        pytest.param(CrashPoint.ALLOCATED, True, False, id="after-allocate"),
        pytest.param(CrashPoint.COMMITTING, True, False, id="before-commit"),
        pytest.param(CrashPoint.COMMITTED, False, True, id="after-commit"),
        pytest.param(CrashPoint.ANSWERING, False, True, id="before-answer"),
    ],
)
async def test_kill_during_an_admission(sockets: Path, point: CrashPoint, is_taken_back: bool, is_kept: bool) -> None:
    async with running(sockets, point.value, "1") as manager:
        with pytest.raises(Killed):
            await manager.ask("admit", pod="p", count=2)
        await dies(manager)
    async with running(sockets) as manager:
        pods = (await manager.ask("state"))["pods"]
        assert ("p" in pods) == is_kept
        assert "held" in await manager.ask("admit", pod="p", count=2)
        assert [(each.devices, each.reason) for each in manager.plugin.deallocated] == (
            [(("g0", "g1"), ReleaseReason.ADMISSION_FAILED)] if is_taken_back else []
        )
        assert ("Allocate" in manager.plugin.calls) == (not is_kept)
        await manager.ask("release", pod="p")
        await check_all_is_free(manager)


async def test_kill_between_refusal_and_deallocate(sockets: Path) -> None:
    async with running(sockets, CrashPoint.QUEUED.value, "1") as manager:
        manager.plugin.allocate_answer = refusing(RpcCode.UNAVAILABLE, "lost")
        with contextlib.suppress(Killed):  # it may just have time to answer
            await manager.ask("admit", pod="p", count=2)
        await dies(manager)
    async with running(sockets) as manager:
        await manager.ask("settled")
        assert [each.reason for each in manager.plugin.deallocated] == [ReleaseReason.ADMISSION_FAILED]
        await check_all_is_free(manager)


class Cleanliness:
    """What all processes of a plugin see together: no device is given out dirty, none cleaned in somebody's hands."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._allocated: Counter[str] = Counter()
        self._confirmed: set[str] = set()

    def watch(self, plugin: FakePlugin) -> None:
        async def allocate(devices: Sequence[DeviceId]) -> ContainerEdits:
            self._allocated.update(devices)
            # Twice for one pod: its app container takes over what its init container had.
            self.faults += [f"{id} is given out dirty" for id in devices if self._allocated[id] > 2]
            return ContainerEdits()

        async def deallocate(devices: Sequence[DeviceId]) -> None:
            self._clean(next(each for each in reversed(plugin.deallocated) if each.devices == tuple(devices)))

        for before in plugin.deallocated:
            self._clean(before)
        plugin.allocate_answer = allocate
        plugin.deallocate_answer = deallocate

    def _clean(self, call: Released) -> None:
        if call.operation in self._confirmed:
            self.faults += [f"{id} is cleaned under a pod" for id in call.devices if self._allocated[id]]
        self._confirmed.add(call.operation)
        for device_id in call.devices:
            del self._allocated[device_id]


@pytest.mark.timeout(300)  # starts a manager some 13 times
async def test_kills_at_random_with_deallocate(sockets: Path) -> None:
    await kill_at_random(sockets, random.Random(2), rounds=12)


@pytest.mark.soak
async def test_kills_at_random_with_deallocate_many_times(sockets: Path) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201  # pytest shows it when the test fails
    await kill_at_random(sockets, random.Random(seed), rounds=300)


async def kill_at_random(root: Path, chance: random.Random, *, rounds: int) -> None:
    ledger, cleanliness = Ledger(), Cleanliness()
    numbers = itertools.count(1)
    confirmed = 0
    while rounds > 0 or not confirmed:  # else nothing was tested
        rounds -= 1
        async with manager_process(root, options=BOTH, gates=GATE) as manager:
            cleanliness.watch(manager.plugin)
            pods = (await manager.ask("state"))["pods"]
            ledger.check(pods)
            ledger.settle(pods)
            for pod in list(ledger.releasing):
                await ledger.release(manager, pod)
            async with asyncio.TaskGroup() as tasks:
                clients = [tasks.create_task(be_a_client(manager, ledger, chance, numbers)) for _ in range(4)]
                await asyncio.sleep(chance.uniform(0, 0.1))  # not to wait for anything: the moment is what varies
                manager.process.kill()
            confirmed += sum(each.result() for each in clients)
    async with running(root) as manager:
        cleanliness.watch(manager.plugin)
        for pod in (await manager.ask("state"))["pods"]:
            await manager.ask("release", pod=pod)
        await check_all_is_free(manager)
    assert cleanliness.faults == []
