"""An Allocate of a device that was given before, on a kubelet whose checkpoint a test writes by hand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay import Assignment, ContainerEdits, Device, DevicePlugin, ReleasePolicy, Replicas
from plugbay.errors import RpcFailed
from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.assignments import Owner
from plugbay.model.ids import DeviceId, PodUid
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.sdk.author.release_settings import ReleaseSource
from plugbay.sdk.release import giving
from plugbay.sdk.release.evidence import readings
from plugbay.sdk.serving.server import PluginServer
from plugbay.testing.fakes.kubelet import RegisteredPlugin, fake_kubelet
from tests.contract.rigs.manager import DEADLINE_S, GOPHER
from tests.contract.rigs.stock_release import Gophers, served

A = DeviceId("a")


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "DEADLINE_S", 20.0)


class Gated(Gophers):
    """Tells of each beginning and end; `release` waits for ``may_release``, `allocate` for ``may_allocate``."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        self.may_release, self.may_allocate = asyncio.Event(), asyncio.Event()
        self.may_release.set()
        self.may_allocate.set()

    async def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
        self._tell("allocate")
        await self.may_allocate.wait()
        self._tell("allocated")
        return ContainerEdits()

    async def release(self, assignment: Assignment) -> None:
        self._tell("release")
        await self.may_release.wait()
        self.released.append(assignment)
        self._tell("released")

    def _tell(self, what: str) -> None:
        self.told.append(what)
        self.news.set()


class ByHand:
    """A kubelet with one plugin; its checkpoint is written when a list comes.

    Attributes:
        writes: what is done then.
    """

    def __init__(self, paths: KubeletPaths, plugin: RegisteredPlugin) -> None:
        self.paths = paths
        self.plugin = plugin
        self.writes: Callable[[], object] = lambda: None

    async def run(self) -> None:
        while True:
            with suppress(TimeoutError):  # it may be long until one comes
                await self.plugin.next_list()
                self.writes()

    def put(self, content: bytes) -> None:
        fresh = self.paths.checkpoint.with_name(".fresh")
        fresh.write_bytes(content)
        fresh.rename(self.paths.checkpoint)

    def lists(self, *units: str) -> None:
        """The checkpoint has these devices in the hands of a pod."""
        entry = PodDevicesEntry("p", "app", GOPHER, {0: units}, b"")
        self.put(encode(CheckpointData([entry] if units else None, {GOPHER: ["a"]})))

    async def allocate(self, unit: str = A) -> None:
        await self.plugin.client.allocate([DeviceId(unit)], timeout_s=DEADLINE_S)


@asynccontextmanager
async def by_hand(
    root: Path, gophers: DevicePlugin, *, interval_s: float = 1000, source: ReleaseSource = ReleaseSource.AUTO
) -> AsyncIterator[tuple[ByHand, PluginServer]]:
    paths = KubeletPaths(root)
    async with fake_kubelet(paths) as kubelet, served(gophers, root, interval_s, source) as server:
        plugin = await kubelet.next_registration()
        await plugin.next_list()
        hand = ByHand(paths, plugin)
        working = asyncio.create_task(hand.run())
        try:
            yield hand, server
        finally:
            working.cancel()
            await asyncio.wait([working])


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """What the log says of releases."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("plugbay.sdk.release")
    logger.addHandler(handler)
    yield said
    logger.removeHandler(handler)


def disagreeing(hand: ByHand) -> Callable[[], None]:
    """It lists the device and lists it not."""
    answers = iter([hand.lists, lambda: hand.lists("a")] * giving.MOST_READINGS)
    return lambda: next(answers)()


@pytest.mark.parametrize("policy", ReleasePolicy)
@pytest.mark.parametrize(
    ("writing", "problem"),
    [
        pytest.param(lambda _: lambda: None, "was not written within 0.2 s of sending it our list", id="late"),
        pytest.param(lambda hand: lambda: hand.put(b"{}"), "is corrupted", id="corrupt"),
        pytest.param(
            lambda hand: lambda: hand.put(encode(CheckpointData(None, {}))),
            "it does not name example.com/gopher, so another kubelet may have written it",
            id="of-another",
        ),
        pytest.param(disagreeing, "4 readings of it disagree", id="disagreeing"),
    ],
)
async def test_device_of_which_nobody_can_tell(
    sockets: Path,
    warnings: list[str],
    monkeypatch: pytest.MonkeyPatch,
    policy: ReleasePolicy,
    writing: Callable[[ByHand], Callable[[], None]],
    problem: str,
) -> None:
    """Who is strict gets no answer but why, who is lazy gets it as it is, and says so."""
    gophers = Gated("a")
    gophers.release_policy = policy
    async with by_hand(sockets, gophers) as (hand, _):
        await hand.allocate()
        hand.writes = writing(hand)
        if problem.startswith("was not written"):
            monkeypatch.setattr(readings, "DEADLINE_S", 0.2)
        told = "the kubelet's checkpoint does not say which pods hold devices: "
        if policy is ReleasePolicy.STRICT:
            with pytest.raises(RpcFailed) as caught:
                await hand.allocate()
            text = caught.value.detail
            assert text.startswith(f"cannot allocate a of example.com/gopher before they are released: {told}")
            assert problem in text
            assert gophers.told == ["allocate", "allocated"]
            assert warnings == []
        else:
            await hand.allocate()
            assert gophers.told == ["allocate", "allocated"] * 2
            [said] = warnings
            assert said.startswith(f"example.com/gopher: a are given without being released: {told}")
            assert problem in said


@pytest.mark.parametrize("policy", ReleasePolicy)
async def test_device_that_is_listed_goes_on_and_one_that_is_not_is_released(
    sockets: Path, policy: ReleasePolicy
) -> None:
    gophers = Gated("a")
    gophers.release_policy = policy
    async with by_hand(sockets, gophers) as (hand, server):
        await hand.allocate()
        assert server.release is not None
        [first] = server.release.ledger.uses()
        hand.writes = lambda: hand.lists("a")
        await hand.allocate()
        assert [use.key for use in server.release.ledger.uses()] == [first.key]
        hand.writes = hand.lists
        await hand.allocate()
        assert gophers.told == [*["allocate", "allocated"] * 2, "release", "released", "allocate", "allocated"]
        assert [each.key for each in gophers.released] == [first.key]


@pytest.mark.parametrize("policy", ReleasePolicy)
async def test_without_calls_and_checkpoints_nobody_takes_a_second_pod_for_the_first(
    sockets: Path, warnings: list[str], policy: ReleasePolicy
) -> None:
    """``--release kubelet`` on a kubelet that never calls: who is strict looks for once, who is lazy says so."""
    gophers = Gated("a")
    gophers.release_policy = policy
    async with by_hand(sockets, gophers, source=ReleaseSource.KUBELET) as (hand, server):
        await hand.allocate()
        assert server.release is not None
        [first] = server.release.ledger.uses()
        hand.writes = hand.lists
        await hand.allocate()
        [second] = server.release.ledger.uses()
        assert first.key != second.key
        allocated = ["allocate", "allocated"]
        if policy is ReleasePolicy.STRICT:
            assert gophers.told == [*allocated, "release", "released", *allocated]
            assert warnings == []
        else:
            assert gophers.told == allocated * 2
            assert warnings == [
                "example.com/gopher: a are given without being released: "
                "the kubelet does not report ends of pods, and its checkpoint is not to be read"
            ]


async def test_kubelet_that_calls_is_believed_that_a_use_goes_on(sockets: Path, warnings: list[str]) -> None:
    """An app container takes over; after the release the next use is another one."""
    gophers = Gated("a")
    gophers.release_policy = ReleasePolicy.LAZY
    async with by_hand(sockets, gophers, source=ReleaseSource.KUBELET) as (hand, server):
        await hand.plugin.client.deallocate([A], OperationId("0"), ReleaseReason.ORPHANED)
        assert server.release is not None
        keys = []
        for _ in range(2):
            await hand.allocate()
            keys += [use.key for use in server.release.ledger.uses()]
        await hand.plugin.client.deallocate([A], OperationId("1"), ReleaseReason.POD_ENDED)
        assert keys[0] == keys[1] == gophers.released[-1].key
        assert warnings == []


class Stopping(DevicePlugin):
    """Has nothing to release."""

    resource_name = GOPHER

    def discover(self) -> Sequence[Device]:
        return [Device("a")]

    async def post_stop(self, assignment: Assignment) -> None:
        """Only to be asked for."""


async def test_owner_of_what_goes_on_in_whoevers_hands_is_unknown_again(sockets: Path) -> None:
    async with by_hand(sockets, Stopping()) as (hand, server):
        await hand.allocate()
        assert server.release is not None
        [use] = server.release.ledger.uses()
        server.release.ledger.change(replace(use, pod=PodUid("p"), owners=(Owner(pod="p", uid=PodUid("p")),)))
        await hand.allocate()
        [again] = server.release.ledger.uses()
        assert (again.key, again.pod, again.owners) == (use.key, "", ())


# --- slow hooks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ReleasePolicy)
async def test_allocate_waits_for_a_release_that_runs_and_not_without_end(
    sockets: Path, policy: ReleasePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first to give up has begun the release, the second found it running; it is not begun again."""
    gophers = Gated("a")
    gophers.release_policy = policy
    gophers.may_release.clear()
    async with by_hand(sockets, gophers) as (hand, _):
        await hand.allocate()
        hand.writes = hand.lists
        with monkeypatch.context() as impatient:
            impatient.setattr(giving, "PATIENCE_S", 0.2)
            for _ in range(2):
                with pytest.raises(RpcFailed) as caught:
                    await hand.allocate()
                assert caught.value.detail == (
                    "cannot allocate a of example.com/gopher before they are released: "
                    "release() takes longer than 0.2 s; it goes on"
                )
        waiting = asyncio.create_task(hand.allocate())
        gophers.may_release.set()
        await waiting
        assert gophers.told == ["allocate", "allocated", "release", "released", "allocate", "allocated"]


async def test_two_calls_for_one_device_come_one_after_the_other(sockets: Path) -> None:
    """As of a kubelet that was restarted while its first call waited."""
    gophers = Gated("a")
    async with by_hand(sockets, gophers) as (hand, _):
        hand.writes = hand.lists
        await hand.allocate()
        gophers.may_release.clear()
        gophers.may_allocate.clear()
        calls = [asyncio.create_task(hand.allocate()) for _ in range(2)]
        await gophers.until_told("allocate", "allocated", "release")
        gophers.may_release.set()
        await gophers.until_told("allocate", "allocated", "release", "released", "allocate")
        gophers.may_allocate.set()
        await asyncio.gather(*calls)
        assert gophers.told == ["allocate", "allocated", *["release", "released", "allocate", "allocated"] * 2]


async def test_allocate_waits_for_an_earlier_one_and_not_without_end(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(giving, "PATIENCE_S", 0.2)
    gophers = Gated("a")
    gophers.may_allocate.clear()
    async with by_hand(sockets, gophers) as (hand, _):
        first = asyncio.create_task(hand.allocate())
        await gophers.until_told("allocate")
        with pytest.raises(RpcFailed, match=r"an earlier allocate\(\) takes longer than 0\.2 s"):
            await hand.allocate()
        gophers.may_allocate.set()
        await first


# --- shares ---------------------------------------------------------------------------------------------------------


class Shared(Gated):
    def discover(self) -> Sequence[Device]:
        return [Device("a", sharing=Replicas(2))]


async def test_share_of_a_device_that_others_left_dirty_is_given_clean(sockets: Path) -> None:
    gophers = Shared("a")
    async with by_hand(sockets, gophers) as (hand, server):
        await hand.allocate("a::0")
        hand.writes = lambda: hand.lists("a::0")
        await hand.allocate("a::1")  # both have it
        assert server.release is not None
        [_, second] = server.release.ledger.uses()
        assert gophers.told == ["allocate", "allocated"] * 2
        server.release.ledger.close_use(second.key)
        hand.writes = hand.lists
        await hand.allocate("a::1")
        assert gophers.told == [*["allocate", "allocated"] * 2, "release", "released", "allocate", "allocated"]
