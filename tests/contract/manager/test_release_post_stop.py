"""PostStopContainer by the manager alone, on real sockets and a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from plugbay.errors import PostStopUnconfirmed, RpcCode
from plugbay.manager.config import ReleaseLimits, Unconfirmed
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import ContainerName
from plugbay.model.releases import OperationKind
from plugbay.model.requests import ContainerKind, PodRequest
from plugbay.testing.fakes.plugin import FakePlugin, refusing
from tests.contract.rigs.manager import OTHER, Bench, Gate, container, never, pod
from tests.contract.rigs.release import ALL, BOTH, INTERNAL, P, Sequenced, ended, fine, first_notice, gated

APPS = ("app", "beside")


async def test_next_start_waits_for_the_last_ones_cleaning(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=ALL)
        await b.manager.admit(pod("p"))
        await b.prepare("p")
        gopher.post_stop_answer = hang = Gate(fine)
        ended(b)
        ended(b)
        start = asyncio.ensure_future(b.prepare("p"))
        await hang.entered.wait()
        assert gopher.calls_for_pods == ["Allocate", "PreStartContainer", "PostStopContainer"]
        hang.open.set()
        await start
        assert gopher.calls_for_pods[3:] == ["PreStartContainer"]


class Held(NamedTuple):
    """A start that waits for a cleaning, which lasts until the gate opens."""

    b: Bench
    gopher: FakePlugin
    cleaning: Gate
    start: asyncio.Future[ContainerEdits]


@asynccontextmanager
async def held(root: Path, request: PodRequest, *, after: str = "app", **settings: Any) -> AsyncIterator[Held]:
    """The start of ``app``, when ``after`` has ended, of which it takes over the device."""
    async with gated(root, **settings) as b:
        gopher = await b.plugin("a", "b", options=ALL)
        await b.manager.admit(request)
        await b.prepare("p", after)
        gopher.post_stop_answer = cleaning = Gate(fine)
        ended(b, name=after)
        start = asyncio.ensure_future(b.prepare("p"))
        await cleaning.entered.wait()
        yield Held(b, gopher, cleaning, start)


async def test_start_goes_on_without_confirmation_and_the_call_is_not_made_late(sockets: Path) -> None:
    async with held(sockets, pod("p")) as (b, gopher, _, start):
        await b.clock.sleep_through(60.0)
        await start
        notice = await first_notice(b)
        assert (notice.container, notice.kind) == ("app", OperationKind.POST_STOP)
        assert "not confirmed within 60 s" in notice.message
        assert not b.manager.releases.pending()
        gopher.post_stop_answer = fine
        await b.release("p")
        await b.manager.until_deallocated(P)
        wanted = ["Allocate", "PreStartContainer", "PostStopContainer", "PreStartContainer"]
        # Nothing was started after the second PreStartContainer, and that is told.
        await gopher.until_called(*wanted, "PostStopContainer", "Deallocate")


async def test_strict_setting_fails_the_start_instead(sockets: Path) -> None:
    limits = ReleaseLimits(on_unconfirmed=Unconfirmed.FAIL)
    async with held(sockets, pod("p"), release=limits) as (b, gopher, cleaning, start):
        await b.clock.sleep_through(60.0)
        with pytest.raises(PostStopUnconfirmed):
            await start
        cleaning.open.set()
        await b.prepare("p")
        assert len(gopher.post_stopped) == 1


def sharing() -> PodRequest:
    """A pod whose ``app`` takes over the device a of ``init``, while ``beside`` has b for itself."""
    return pod("p", container("init", ContainerKind.INIT, gopher=1), *(container(c, gopher=1) for c in APPS))


async def test_next_user_of_a_device_waits_for_a_slow_cleaning_and_nobody_else_does(sockets: Path) -> None:
    async with held(sockets, sharing(), after="init") as (b, gopher, cleaning, start):
        await b.prepare("p", "beside")
        assert gopher.pre_started == [("a",), ("b",)]
        cleaning.open.set()
        await start
        assert gopher.pre_started == [("a",), ("b",), ("a",)]


async def test_next_user_of_a_device_waits_while_its_cleaning_fails(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", "b", options=ALL)
        await b.manager.admit(sharing())
        await b.prepare("p", "init")
        gopher.post_stop_answer = Sequenced(INTERNAL, fine)
        ended(b, name="init")
        start = asyncio.ensure_future(b.prepare("p", "app"))
        await b.clock.sleep_through(0.5)
        await start
        once = ["PreStartContainer", "PostStopContainer"]
        assert gopher.calls_for_pods == [*["Allocate"] * 3, *once, *once[::-1]]


async def test_next_user_of_a_device_starts_when_its_cleaning_is_refused(sockets: Path) -> None:
    """For good: it is not asked again, and the pod's event tells."""
    async with gated(sockets) as b:
        gopher = await b.plugin("a", "b", options=ALL)
        await b.manager.admit(sharing())
        await b.prepare("p", "init")
        gopher.post_stop_answer = refusing(RpcCode.FAILED_PRECONDITION, "too hot")
        ended(b, name="init")
        await b.prepare("p", "app")
        assert gopher.calls_for_pods[3:] == ["PreStartContainer", "PostStopContainer", "PreStartContainer"]
        assert "too hot" in (await first_notice(b)).message


@pytest.mark.parametrize("unconfirmed", Unconfirmed)
async def test_next_user_of_a_device_whose_cleaning_hangs(sockets: Path, unconfirmed: Unconfirmed) -> None:
    limits = ReleaseLimits(on_unconfirmed=unconfirmed)
    async with held(sockets, sharing(), after="init", release=limits) as (b, gopher, cleaning, start):
        await b.clock.sleep_through(60.0)
        if unconfirmed is Unconfirmed.FAIL:
            with pytest.raises(PostStopUnconfirmed, match="for container init is not confirmed"):
                await start
            cleaning.open.set()
            await b.prepare("p", "app")
        else:
            await start
        assert gopher.pre_started == [("a",), ("a",)]
        assert len(gopher.post_stopped) == 1


async def test_limit_of_nothing_waits_for_nothing(sockets: Path) -> None:
    """Neither a start nor an end; the clock of this test stands still."""
    async with gated(sockets, release=ReleaseLimits(wait_s=0)) as b:
        gopher = await b.plugin("a", options=ALL)
        await b.manager.admit(pod("p"))
        await b.prepare("p")
        gopher.post_stop_answer = gopher.deallocate_answer = never
        ended(b)
        await b.prepare("p")
        assert "not confirmed within 0 s" in (await first_notice(b)).message
        b.manager.container_ended(P, ContainerName("app"), "i2")
        await b.release("p")
        await b.manager.until_deallocated(P)
        assert [each.kind for each in b.manager.release_operations()] == [
            OperationKind.POST_STOP,
            OperationKind.DEALLOCATE,
        ]


async def test_failed_pre_start_undoes_those_that_succeeded(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=ALL)
        other = await b.plugin("x", resource=OTHER, options=ALL)
        await b.manager.admit(pod("p", container("app", gopher=1, other=1)))
        other.pre_start_answer = INTERNAL
        with pytest.raises(Exception, match="no power"):
            await b.prepare("p")
        await gopher.until_called("Allocate", "PreStartContainer", "PostStopContainer")
        other.pre_start_answer = fine
        await b.prepare("p")
        assert other.calls_for_pods == ["Allocate", "PreStartContainer", "PreStartContainer"]


async def test_deallocate_waits_for_post_stop(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        gopher.post_stop_answer = Sequenced(INTERNAL, fine)
        await b.manager.admit(pod("p"))
        ended(b)
        await b.release("p")
        await b.clock.sleep_through(0.5)
        await gopher.until_called("Allocate", "PostStopContainer", "PostStopContainer", "Deallocate")
