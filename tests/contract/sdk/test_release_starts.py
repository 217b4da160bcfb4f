"""A container that starts with devices that another container of its pod had: on a kubelet that never tells of ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from plugbay import Assignment, Device, ReleasePolicy
from plugbay.errors import RpcFailed
from plugbay.sdk.release import starts
from plugbay.sdk.release.evidence import readings
from plugbay.sdk.serving import service
from tests.contract.rigs.manager import DEADLINE_S
from tests.contract.rigs.stock_release import Gophers, Stopping
from tests.contract.sdk.test_release_giving import A, ByHand, by_hand


async def start(hand: ByHand, *, timeout_s: float = DEADLINE_S) -> None:
    """PreStartContainer, as before the creation of a container."""
    await hand.plugin.client.pre_start_container([A], timeout_s=timeout_s)


async def test_container_is_post_stopped_though_the_checkpoint_was_late_at_allocate(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loaded machine: nothing shows that the app container takes over from its init container until both start."""
    gophers = Stopping("a")
    gophers.release_policy = ReleasePolicy.LAZY
    async with by_hand(sockets, gophers) as (hand, _):
        await hand.allocate()
        with monkeypatch.context() as hurried:
            hurried.setattr(readings, "DEADLINE_S", 0.05)
            await hand.allocate()
            await start(hand)
            assert gophers.told == []
            with pytest.raises(RpcFailed, match=r"no container can start with a of example.com/gopher yet: .* written"):
                await start(hand)
        assert gophers.told == []
        hand.writes = lambda: hand.lists("a")
        await start(hand)
        assert gophers.told == ["post_stop a"]


class Slow(Gophers):
    """Its hooks take until `may_end`."""

    release_policy = ReleasePolicy.LAZY

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        self.begun, self.may_end = threading.Event(), threading.Event()

    def pre_start_container(self, devices: Sequence[Device]) -> None:
        self.told.append("pre_start")
        self._work()
        self.told.append("pre_started")

    def post_stop(self, assignment: Assignment) -> None:
        self.told.append("post_stop")
        self._work()
        self.told.append("post_stopped")

    def _work(self) -> None:
        self.begun.set()
        assert self.may_end.wait(DEADLINE_S)


async def give_up(hand: ByHand, gophers: Slow) -> None:
    """Begin a start, and give it up in the middle of a hook."""
    gophers.begun.clear()
    gophers.may_end.clear()
    starting = asyncio.create_task(start(hand))
    assert await asyncio.to_thread(gophers.begun.wait, DEADLINE_S)
    starting.cancel()
    await asyncio.wait([starting])


async def test_start_waits_for_the_hooks_of_one_that_the_kubelet_gave_up(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet gives them 30 s. A hook that goes on after that would meet the container of the next start."""
    gophers = Slow("a")
    async with by_hand(sockets, gophers) as (hand, _):
        await hand.allocate()
        for module in (service, starts):
            monkeypatch.setattr(module, "START_PATIENCE_S", 0.2)
        for hook, problem in (
            ("pre_start", "a hook of an earlier call for them still runs"),
            ("post_stop", r"post_stop\(\) takes longer than 0.2 s; it goes on"),
        ):
            await give_up(hand, gophers)
            with pytest.raises(RpcFailed, match=f"no container can start with a of example.com/gopher yet: {problem}"):
                await start(hand)
            assert gophers.told == [hook]
            gophers.may_end.set()
            async with asyncio.timeout(DEADLINE_S):
                while len(gophers.told) < 2:  # noqa: ASYNC110  # a thread tells
                    await asyncio.sleep(0.01)
            gophers.told.clear()
            await start(hand)
            # What has ended by then is not told once more.
            assert gophers.told == ["pre_start", "pre_started"]
            gophers.told.clear()


async def test_release_waits_for_the_hook_of_a_start_that_the_kubelet_gave_up(sockets: Path) -> None:
    gophers = Slow("a")
    async with by_hand(sockets, gophers) as (hand, _):
        await hand.allocate()
        await give_up(hand, gophers)
        hand.writes = hand.lists
        next_user = asyncio.create_task(hand.allocate())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(next_user), 0.3)
        assert gophers.told == ["pre_start"]
        gophers.may_end.set()
        await next_user
        assert gophers.told == ["pre_start", "pre_started", "release a"]
