"""Deallocate for admissions of which nothing comes, by the manager alone, on real sockets.

Numbers are those of the proposal's list of tests (spec 12.12); the others are in ``test_deallocate.py``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plugbay.errors import RpcCode
from plugbay.manager.crash_points import CrashPoint
from plugbay.model.releases import ReleaseReason
from plugbay.model.requests import ContainerKind
from plugbay.testing.fakes.plugin import refusing
from tests.contract.rigs.manager import OTHER, Gate, container, pod, rejection
from tests.contract.rigs.release import BOTH, INTERNAL, P, Sequenced, gated, some_edits


async def test_07_second_containers_allocate_fails(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", "b", options=BOTH)
        gopher.allocate_answer = Sequenced(some_edits, INTERNAL)
        await rejection(b.manager, pod("p", container("one", gopher=1), container("two", gopher=1)))
        await gopher.until_called("Allocate", "Allocate", "Deallocate")
        [deallocate] = gopher.deallocated
        assert (deallocate.devices, deallocate.reason) == (("a",), ReleaseReason.ADMISSION_FAILED)
        await b.counts(2, 2)
        gopher.allocate_answer = some_edits
        await b.manager.admit(pod("q", gopher=2))


async def test_other_resource_refuses(sockets: Path) -> None:
    """The first resource's devices are told of in one call; what was refused is not told of."""
    async with gated(sockets) as b:
        gopher = await b.plugin("a", "b", options=BOTH)
        other = await b.plugin("x", resource=OTHER, options=BOTH)
        other.allocate_answer = INTERNAL
        one, two = container("one", gopher=1), container("two", gopher=1, other=1)
        await rejection(b.manager, pod("p", one, two))
        await gopher.until_called("Allocate", "Allocate", "Deallocate")
        assert [each.devices for each in gopher.deallocated] == [("a", "b")]
        await b.counts(1, 1, resource=OTHER)
        assert other.calls_for_pods == ["Allocate"]


@pytest.mark.parametrize("code", [RpcCode.DEADLINE_EXCEEDED, RpcCode.UNAVAILABLE, RpcCode.CANCELLED])
async def test_allocate_that_may_have_happened(sockets: Path, code: RpcCode) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        gopher.allocate_answer = refusing(code, "lost")
        await rejection(b.manager, pod("p"))
        attempts = ["Allocate", "Allocate"] if code is RpcCode.CANCELLED else ["Allocate"]
        await gopher.until_called(*attempts, "Deallocate")
        assert [(each.devices, each.reason) for each in gopher.deallocated] == [
            (("a",), ReleaseReason.ADMISSION_FAILED)
        ]


async def test_allocate_that_is_refused(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        gopher.allocate_answer = INTERNAL
        await rejection(b.manager, pod("p"))
        gopher.allocate_answer = some_edits
        await b.manager.admit(pod("q"))
        await b.release("q")
        await gopher.until_called("Allocate", "Allocate", "Deallocate")
        assert gopher.deallocated[0].reason is ReleaseReason.POD_ENDED


async def test_admission_that_is_cancelled_in_its_allocate(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        gopher.allocate_answer = hang = Gate(some_edits)
        admission = asyncio.ensure_future(b.manager.admit(pod("p")))
        await hang.entered.wait()
        admission.cancel()
        await gopher.until_called("Allocate", "Deallocate")
        await b.counts(1, 1)


@contextmanager
def at(effect: CrashPoint, act: Callable[[], object]) -> Iterator[None]:
    """Do something in the middle of what the manager does."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == f"effect: {effect.value}":
                act()

    handler, effects = Handler(), logging.getLogger("plugbay.manager.crash_points")
    before = effects.level
    effects.addHandler(handler)
    effects.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        effects.setLevel(before)
        effects.removeHandler(handler)


async def test_admission_that_is_cancelled_in_its_commit(sockets: Path) -> None:
    """What is handed to the store takes effect: whoever ends the pod then finds it and gives it back."""
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        admission = asyncio.ensure_future(b.manager.admit(pod("p")))
        with at(CrashPoint.COMMITTING, admission.cancel), pytest.raises(asyncio.CancelledError):
            await admission
        await b.release("p")
        await gopher.until_called("Allocate", "Deallocate")
        await b.counts(1, 1)
        assert b.manager.assigned_pods() == frozenset()


async def test_release_that_is_cancelled_and_made_again(sockets: Path) -> None:
    """There is one Deallocate, and so none when the device is somebody else's already."""
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        await b.manager.admit(pod("p"))
        release = asyncio.ensure_future(b.release("p"))
        with at(CrashPoint.RELEASING, release.cancel), pytest.raises(asyncio.CancelledError):
            await release
        await b.release("p")
        await b.manager.until_deallocated(P)
        await b.manager.admit(pod("q"))
        await b.release("q")
        await gopher.until_called("Allocate", "Deallocate", "Allocate", "Deallocate")


async def test_readmission_that_fails_leaves_what_the_pod_has(sockets: Path) -> None:
    """A container that is new in the pod reuses the device of one that is not: nothing is taken back."""
    init, app = container("init", ContainerKind.INIT, gopher=1), container("app", gopher=1, other=1)
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        other = await b.plugin("x", resource=OTHER)
        await b.manager.admit(pod("p", init))
        other.allocate_answer = INTERNAL
        await rejection(b.manager, pod("p", init, app))
        await b.release("p")
        await gopher.until_called("Allocate", "Allocate", "Deallocate")
        assert [each.reason for each in gopher.deallocated] == [ReleaseReason.POD_ENDED]


async def test_refused_pod_can_have_the_devices_that_its_own_leftovers_hold(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        gopher.allocate_answer = Sequenced(refusing(RpcCode.UNAVAILABLE, "lost"), some_edits)
        await rejection(b.manager, pod("p"))
        await b.manager.admit(pod("p"))
        assert gopher.calls_for_pods == ["Allocate", "Deallocate", "Allocate"]
