"""Shares of one device, in virtual time: who has another one may not be stored yet, or may be gone."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plugbay import Device, DevicePlugin, ReleasePolicy
from plugbay.errors import DevicesNotReleased
from plugbay.model.assignments import Assignment, Origin
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.sdk.hooks.turns import Turns
from plugbay.sdk.release.ending import Ends
from plugbay.sdk.release.giving import PATIENCE_S, Giving
from plugbay.sdk.release.hooks import ReleaseHooks
from plugbay.sdk.release.ledger.journal import Journal
from plugbay.sdk.release.ledger.ledger import Ledger, Trouble
from plugbay.sdk.release.uses import GRACE_S, KubeletLife, Reading, Use, UsePhase
from tests.unit.sdk.release.contexts import context_of
from tests.unit.sdk.virtual_loop import VirtualLoop

GOPHER = ResourceName("example.com/gopher")
DEVICE, OURS, OTHERS = DeviceId("a"), DeviceId("a::1"), DeviceId("a::0")
SECOND, OURS_OF_SECOND, OTHERS_OF_SECOND = DeviceId("b"), DeviceId("b::1"), DeviceId("b::0")
LIFE = KubeletLife("1", 0.0)
HOLDER = frozenset({(PodUid("p"), ContainerName("app"))})


class Cleaner(DevicePlugin):
    resource_name = GOPHER

    def discover(self) -> Sequence[Device]:
        return []

    async def release(self, assignment: object) -> None:
        """Nobody serves it: whoever wants it called learns that."""


class Share:
    """One share of a device is in use, the other is asked for.

    Attributes:
        asked_at: when each reading was made.
        listed_from: when the checkpoint begins to list the share in use; None for never.
        stops_at: when the pod that had the share has stopped.
    """

    def __init__(self, ledger: Ledger, *, policy: ReleasePolicy = ReleasePolicy.STRICT) -> None:
        self.ledger = ledger
        self.stops_at = float("-inf")
        self.asked_at: list[float] = []
        self.listed_from: float | None = None
        plugin = Cleaner()
        plugin.release_policy = policy
        context = context_of(plugin, ledger, ledger.path.parent)
        context.evidence.read = self._read  # type: ignore[method-assign]  # no kubelet to ask
        context.evidence.stopping.until_stopped = self._until_stopped  # type: ignore[method-assign]
        self.giving = Giving(context, Ends(context, ReleaseHooks(), Turns()))

    async def _read(self, uses: Collection[Use]) -> Reading:
        now = asyncio.get_running_loop().time()
        self.asked_at.append(now)
        is_listed = self.listed_from is not None and now >= self.listed_from
        going_on = frozenset(use.key for use in uses) if now < self.stops_at else frozenset()
        return Reading(now, LIFE, {OTHERS: HOLDER} if is_listed else {}, going_on=going_on)

    async def _until_stopped(self, uses: Collection[Use], within_s: float) -> None:
        await asyncio.sleep(max(0, min(within_s, self.stops_at - asyncio.get_running_loop().time())))

    async def clear(self) -> Mapping[DeviceId, DeviceId]:
        return await self.giving.clear({OURS: DEVICE})

    def give(self) -> Use:
        use = self.ledger.begin({OTHERS: DEVICE}, LIFE.id)
        self.ledger.answered(use.key)
        return use


@contextmanager
def shared(tmp_path: Path, *, policy: ReleasePolicy = ReleasePolicy.STRICT) -> Iterator[Share]:
    ledger = Ledger(Journal(tmp_path, GOPHER, "boot"), GOPHER, Trouble.RAISED)
    ledger.open()
    try:
        yield Share(ledger, policy=policy)
    finally:
        ledger.close()


def test_share_that_is_stored_a_little_later_is_waited_for(loop: VirtualLoop, tmp_path: Path) -> None:
    async def ask() -> None:
        with shared(tmp_path) as share:
            use = share.give()
            share.listed_from = use.since + 1
            assert await share.clear() == {OURS: DEVICE}
            assert max(share.asked_at) >= use.since + GRACE_S
            [seen] = share.ledger.uses()
            assert (seen.key, seen.seen_in) == (use.key, LIFE.id)

    run(loop, ask())


def test_share_that_is_never_stored_is_over(loop: VirtualLoop, tmp_path: Path) -> None:
    """Its pod was refused, say."""

    async def ask() -> None:
        with shared(tmp_path) as share:
            use = share.give()
            with pytest.raises(DevicesNotReleased, match="the plugin does not serve"):  # `Share` cannot release it
                await share.clear()
            assert max(share.asked_at) >= use.since + GRACE_S

    run(loop, ask())


def test_share_that_was_seen_is_over_at_once(loop: VirtualLoop, tmp_path: Path) -> None:
    async def ask() -> None:
        with shared(tmp_path) as share:
            use = share.give()
            share.listed_from = use.since
            await share.clear()
            share.listed_from = None
            with pytest.raises(DevicesNotReleased, match="the plugin does not serve"):
                await share.clear()
            assert max(share.asked_at) < use.since + GRACE_S

    run(loop, ask())


async def given_up(share: Share, *, stops_in_s: float) -> Use:
    """A use that the kubelet has dropped, though its pod has still to be stopped."""
    use = share.give()
    share.listed_from = use.since
    await asyncio.sleep(GRACE_S)
    with share.ledger.keeping():
        share.ledger.change(replace(use, seen_in=LIFE.id, pod=PodUid("p")))
    share.listed_from, share.stops_at = None, asyncio.get_running_loop().time() + stops_in_s
    return use


@pytest.mark.parametrize("wanted", [{OTHERS: DEVICE}, {OURS: DEVICE}], ids=["the-same", "another-share"])
def test_who_insists_waits_for_a_pod_that_is_being_stopped(
    loop: VirtualLoop, tmp_path: Path, wanted: dict[DeviceId, DeviceId]
) -> None:
    async def ask() -> None:
        with shared(tmp_path) as share:
            use = await given_up(share, stops_in_s=30)
            with pytest.raises(DevicesNotReleased, match="the plugin does not serve"):  # `Share` cannot release it
                await share.giving.clear(wanted)
            assert asyncio.get_running_loop().time() >= share.stops_at
            [over] = share.ledger.uses()
            assert (over.key, over.phase) == (use.key, UsePhase.RELEASING)

    run(loop, ask())


def test_what_another_process_releases_meanwhile_keeps_nobody_waiting(loop: VirtualLoop, tmp_path: Path) -> None:
    async def ask() -> None:
        with shared(tmp_path) as its, shared(tmp_path) as ours:
            use = await given_up(its, stops_in_s=30)
            ours.ledger.hear()
            ours.stops_at = its.stops_at
            clearing = asyncio.ensure_future(ours.giving.clear({OTHERS: DEVICE}))
            await asyncio.sleep(29)
            assert not clearing.done()
            its.ledger.close_use(use.key)
            ours.ledger.hear()
            assert await clearing == {OTHERS: DEVICE}

    run(loop, ask())


@pytest.mark.parametrize("wanted", [{OTHERS: DEVICE}, {OURS: DEVICE}], ids=["the-same", "another-share"])
def test_a_pod_that_does_not_stop_keeps_its_device(
    loop: VirtualLoop, tmp_path: Path, wanted: dict[DeviceId, DeviceId]
) -> None:
    async def ask() -> None:
        with shared(tmp_path) as share:
            await given_up(share, stops_in_s=3600)
            with pytest.raises(DevicesNotReleased, match="gave its pod up, and has not stopped the containers yet"):
                await share.giving.clear(wanted)
            assert [use.phase for use in share.ledger.uses()] == [UsePhase.OPEN]

    run(loop, ask())


def test_who_asks_again_for_what_does_not_stop_is_refused_at_once(loop: VirtualLoop, tmp_path: Path) -> None:
    """Meanwhile a kubelet lets no other pod in."""

    async def ask() -> None:
        with shared(tmp_path) as share:
            await given_up(share, stops_in_s=3600)
            for waits_s in (PATIENCE_S, 0):
                asked_at = asyncio.get_running_loop().time()
                with pytest.raises(DevicesNotReleased, match="has not stopped the containers yet"):
                    await share.giving.clear({OTHERS: DEVICE})
                assert asyncio.get_running_loop().time() - asked_at == pytest.approx(waits_s, abs=1)

    run(loop, ask())


def test_nobody_waits_for_a_pod_that_a_new_kubelet_knows_nothing_of(loop: VirtualLoop, tmp_path: Path) -> None:
    """It has lost its checkpoint, say, and nobody is stopping that pod."""

    async def ask() -> None:
        with shared(tmp_path) as share:
            use = await given_up(share, stops_in_s=30)
            with share.ledger.keeping():
                share.ledger.change(replace(use, seen_in="0", life="0", pod=PodUid("p")))
            with pytest.raises(DevicesNotReleased, match="nothing shows that its checkpoint survived"):
                await share.giving.clear({OTHERS: DEVICE})
            assert asyncio.get_running_loop().time() < share.stops_at

    run(loop, ask())


def test_the_lazy_do_not_wait_for_a_pod_that_is_being_stopped(loop: VirtualLoop, tmp_path: Path) -> None:
    async def ask() -> None:
        with shared(tmp_path, policy=ReleasePolicy.LAZY) as share:
            await given_up(share, stops_in_s=30)
            assert await share.giving.clear({OTHERS: DEVICE}) == {OTHERS: DEVICE}
            assert asyncio.get_running_loop().time() < share.stops_at
            assert [use.is_overtaken for use in share.ledger.uses()] == [True]

    run(loop, ask())


class Fickle(Cleaner):
    """Its hook fails the first time; from then on it takes until it may end."""

    release_policy = ReleasePolicy.LAZY

    def __init__(self) -> None:
        self.may_end = {DEVICE: asyncio.Event(), SECOND: asyncio.Event()}
        self.failed = asyncio.Event()

    async def release(self, assignment: object) -> None:
        assert isinstance(assignment, Assignment)
        if not self.failed.is_set():
            self.failed.set()
            raise OSError("it hangs")
        await self.may_end[assignment.device_ids[0]].wait()


def test_lazy_waits_for_a_release_that_a_look_tries_again_meanwhile(loop: VirtualLoop, tmp_path: Path) -> None:
    """It failed at first, which alone keeps nobody from giving the device."""

    async def ask() -> None:
        ledger, hooks, plugin = (
            Ledger(Journal(tmp_path, GOPHER, "boot"), GOPHER, Trouble.LOGGED),
            ReleaseHooks(),
            Fickle(),
        )
        context = context_of(plugin, ledger, tmp_path)
        context.evidence.read = _unread  # type: ignore[method-assign]
        ending = Ends(context, hooks, Turns())
        giving = Giving(context, ending)
        with closing(ledger):
            ledger.open()
            running = asyncio.create_task(hooks.run())
            over = [
                ledger.begin({unit: device}, LIFE.id) for unit, device in ((OTHERS, DEVICE), (OTHERS_OF_SECOND, SECOND))
            ]
            for use in over:
                ledger.end(use.key, Origin.SYNTHESISED)
            asked = {OURS: DEVICE, OURS_OF_SECOND: SECOND}
            clearing = asyncio.create_task(giving.clear(asked))
            await plugin.failed.wait()
            await asyncio.sleep(1)
            looking = asyncio.create_task(ending.end(over[0].key, Origin.SYNTHESISED))
            plugin.may_end[SECOND].set()
            await asyncio.sleep(1)
            assert not clearing.done()
            plugin.may_end[DEVICE].set()
            assert await clearing == asked
            await looking
            running.cancel()
            await asyncio.wait([running])

    run(loop, ask())


async def _unread(uses: Collection[Use]) -> Reading:
    raise AssertionError("nothing is open")


def run(loop: VirtualLoop, work: Coroutine[Any, Any, None]) -> None:
    loop.run_until_complete(work)
