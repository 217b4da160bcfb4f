"""PostStopContainer and Deallocate by the manager alone, on real sockets and a clock that the test moves.

Numbers are those of the proposal's list of tests (spec 12.12); the others are in ``test_deallocate.py``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import PostStopUnconfirmed
from plugbay.kubelet.checkpoint import load
from plugbay.manager.effects import Effect
from plugbay.manager.operations import OperationKind
from plugbay.manager.release_notices import ReleaseNotice
from plugbay.manager.release_rules import Exhaustion, ReleaseLimits, Unconfirmed
from plugbay.manager.store import open_store
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.health import unhealthy
from plugbay.model.ids import ContainerName, DeviceId, PodUid
from plugbay.model.releases import ReleaseReason
from plugbay.model.requests import ContainerKind, PodRequest
from plugbay.testing.fake_plugin import FakePlugin, refusing
from tests.contract.bench_manager import (
    DEADLINE_S,
    GOPHER,
    OTHER,
    Bench,
    Gate,
    bench,
    container,
    never,
    pod,
    rejection,
)
from tests.contract.bench_release import ALL, BOTH, gated, operations

P = PodUid("p")
APPS = ("app", "beside")
INTERNAL = refusing("Internal", "no power")


async def ended(b: Bench, uid: str = "p", name: str = "app", instance: str = "i1") -> None:
    b.manager.container_ended(PodUid(uid), ContainerName(name), instance)


async def first_notice(b: Bench) -> ReleaseNotice:
    async with asyncio.timeout(DEADLINE_S):
        return await anext(b.manager.release_notices())


class Sequenced:
    """A behaviour that takes one step of several with each call; the last one stays."""

    def __init__(self, *steps: Any) -> None:
        self._steps = list(steps)

    async def __call__(self, devices: Sequence[DeviceId]) -> Any:
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        return await step(devices)


async def fine(_: Sequence[DeviceId]) -> None:
    return None


async def some_edits(_: Sequence[DeviceId]) -> ContainerEdits:
    return ContainerEdits()


# --- admissions of which nothing comes ------------------------------------------------------------------------------


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


@pytest.mark.parametrize("code", ["DeadlineExceeded", "Unavailable", "Canceled"])
async def test_allocate_that_may_have_happened(sockets: Path, code: str) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        gopher.allocate_answer = refusing(code, "lost")
        await rejection(b.manager, pod("p"))
        await gopher.until_called("Allocate", "Deallocate")
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
def at(effect: Effect, act: Callable[[], object]) -> Iterator[None]:
    """Do something in the middle of what the manager does."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == f"effect: {effect.value}":
                act()

    handler, effects = Handler(), logging.getLogger("plugbay.manager.effects")
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
        with at(Effect.COMMITTING, admission.cancel), pytest.raises(asyncio.CancelledError):
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
        with at(Effect.RELEASING, release.cancel), pytest.raises(asyncio.CancelledError):
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
        gopher.allocate_answer = Sequenced(refusing("Unavailable", "lost"), some_edits)
        await rejection(b.manager, pod("p"))
        await b.manager.admit(pod("p"))
        assert gopher.calls_for_pods == ["Allocate", "Deallocate", "Allocate"]


# --- plugins that are away, or fail ---------------------------------------------------------------------------------


async def test_09_plugin_is_down_at_the_end_and_comes_back(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", "b", options=BOTH)
        await b.manager.admit(pod("p"))
        gopher.end_streams()
        await b.counts(2, 0)
        await b.release("p")
        await b.manager.until_deallocated(P)  # does not wait for a plugin that is away
        gopher.deallocate_answer = hang = Gate(fine)
        await gopher.register(b.paths.registration_socket)
        await hang.entered.wait()
        await b.counts(2, 1)
        refusal = await rejection(b.manager, pod("q", gopher=2))
        assert "Requested: 2, Available: 1" in refusal
        assert [each.is_releasing for each in b.manager.snapshot().resources[0].devices] == [True, False]
        assert b.held("p") == {}
        hang.open.set()
        await b.counts(2, 2)
        assert len(gopher.deallocated) == 1
        await b.manager.admit(pod("q", gopher=2))


async def test_plugin_that_comes_back_without_the_flags_is_not_called(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        await b.manager.admit(pod("p"))
        gopher.end_streams()
        await b.counts(1, 0)
        await ended(b)
        await b.release("p")
        gopher.options_answer = PluginOptions()
        await gopher.register(b.paths.registration_socket)
        await b.counts(1, 1)
        assert gopher.calls_for_pods == ["Allocate"]


async def test_11_errors_are_tried_again_with_growing_gaps(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        gopher.deallocate_answer = Sequenced(INTERNAL, INTERNAL, fine)
        await b.manager.admit(pod("p"))
        await b.release("p")
        for gap_s in (0.5, 1.0):
            await b.clock.sleep_through(gap_s)
        await gopher.until_called("Allocate", "Deallocate", "Deallocate", "Deallocate")
        await b.counts(1, 1)
        assert len(gopher.deallocated) == 3
        assert len(operations(gopher)[1]) == 1
        calls = {code: each.count for (_, _, code), each in b.manager.releases.counts.durations.items()}
        assert calls == {"Internal": 2, "OK": 1}


async def test_12_wait_has_a_limit_and_others_are_admitted_meanwhile(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", "b", options=BOTH)
        gopher.deallocate_answer = hang = Gate(fine)
        await b.manager.admit(pod("p"))
        await b.release("p")
        waiting = asyncio.ensure_future(b.manager.until_deallocated(P))
        await hang.entered.wait()
        await b.manager.admit(pod("q"))
        await b.clock.until_asleep(60.0)
        assert not waiting.done()
        await b.clock.sleep_through(60.0)
        await waiting
        assert b.manager.resources()[GOPHER].allocatable == 1


async def test_13_plugin_without_the_methods(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        gopher.deallocate_answer = gopher.post_stop_answer = refusing("Unimplemented", "unknown method")
        for uid in ("p", "q"):
            await b.manager.admit(pod(uid))
            await ended(b, uid)
            await b.release(uid)
            await b.manager.until_deallocated(PodUid(uid))
            await b.counts(1, 1)
        calls = ["Allocate", "PostStopContainer", "Deallocate", "Allocate"]
        assert gopher.calls_for_pods == calls
        await gopher.register(b.paths.registration_socket)
        await b.counts(1, 1)
        await b.manager.admit(pod("r"))
        await ended(b, "r")
        await gopher.until_called(*calls, "Allocate", "PostStopContainer")


async def test_13_missing_method_is_told_once(sockets: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also when several calls find out at a time."""
    async with gated(sockets) as b:
        gopher = await b.plugin("a", "b", options=BOTH)
        gopher.deallocate_answer = together = Gate(refusing("Unimplemented", "unknown method"))
        await b.admit(pod("p"), pod("q"))
        await b.release("p")
        await b.release("q")
        await gopher.until_called("Allocate", "Allocate", "Deallocate", "Deallocate")
        together.open.set()
        await b.counts(2, 2)
        assert caplog.text.count("asks for Deallocate and has no such method") == 1


@pytest.mark.parametrize(
    ("code", "is_final"),
    [
        ("InvalidArgument", True),
        ("NotFound", True),
        ("FailedPrecondition", True),
        ("PermissionDenied", True),
        ("OutOfRange", True),
        ("Unavailable", False),
        ("DeadlineExceeded", False),
        ("Aborted", False),
        ("ResourceExhausted", False),
        ("Internal", False),
        ("Unknown", False),
        ("Canceled", False),
        ("DataLoss", False),
    ],
)
async def test_answers(sockets: Path, code: str, is_final: bool) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        gopher.deallocate_answer = refusing(code, "because")
        await b.manager.admit(pod("p"))
        await b.release("p")
        notice = await first_notice(b)
        assert (notice.pod, notice.container, notice.kind) == ("p", "", OperationKind.DEALLOCATE)
        assert f"rpc error: code = {code} desc = because" in notice.message
        if is_final:
            await b.counts(1, 1)
        else:
            await b.clock.until_asleep(0.5)
            assert b.manager.resources()[GOPHER].allocatable == 0


async def test_hanging_call_has_a_deadline(sockets: Path) -> None:
    async with gated(sockets, release=ReleaseLimits(attempt_timeout_s=0.2)) as b:
        gopher = await b.plugin("a", options=BOTH)
        gopher.deallocate_answer = Sequenced(never, fine)
        await b.manager.admit(pod("p"))
        await b.release("p")
        await b.clock.sleep_through(0.5)
        await b.counts(1, 1)
        assert len(gopher.deallocated) == 2


@pytest.mark.parametrize("limits", [{"max_attempts": 2}, {"max_age_s": 0.4}], ids=["attempts", "age"])
async def test_device_is_free_when_patience_ends(sockets: Path, limits: dict[str, Any]) -> None:
    async with gated(sockets, release=ReleaseLimits(**limits)) as b:
        gopher = await b.plugin("a", options=BOTH)
        gopher.deallocate_answer = INTERNAL
        await b.manager.admit(pod("p"))
        await b.release("p")
        await b.clock.sleep_through(min(0.5, limits.get("max_age_s", 0.5)))
        await b.counts(1, 1)
        assert b.manager.releases.counts.exhausted == {(OperationKind.DEALLOCATE, GOPHER): 1}
        assert not b.manager.releases.pending()


async def test_age_counts_while_the_plugin_is_away(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        await b.manager.admit(pod("p"))
        gopher.end_streams()
        await b.counts(1, 0)
        await b.release("p")
        assert b.manager.releases.pending() == {(OperationKind.DEALLOCATE, GOPHER): 1}
        await b.clock.sleep_through(24 * 3600.0)
        await b.until(lambda: not b.manager.releases.pending())
        await gopher.register(b.paths.registration_socket)
        await b.counts(1, 1)
        assert not gopher.deallocated


@pytest.mark.parametrize("cure", ["registration", "health"])
async def test_quarantine(sockets: Path, cure: str) -> None:
    limits = ReleaseLimits(max_attempts=1, on_exhaustion=Exhaustion.QUARANTINE)
    async with gated(sockets, release=limits) as b:
        gopher = await b.plugin("a", "b", options=BOTH)
        gopher.deallocate_answer = INTERNAL
        await b.manager.admit(pod("p"))
        await b.release("p")
        await b.until(lambda: b.manager.releases.counts.exhausted.total() == 1)
        await b.until(lambda: not b.manager.releases.pending())
        await b.counts(2, 1)
        if cure == "registration":
            await gopher.register(b.paths.registration_socket)
        else:
            gopher.send([Device("a"), Device("b")])
            gopher.send([Device("a", health=unhealthy("Dirty")), Device("b"), Device("c")])
            await b.counts(3, 2)
            gopher.send([Device("a"), Device("b")])
        await b.counts(2, 2)


# --- PostStopContainer ----------------------------------------------------------------------------------------------


async def test_next_start_waits_for_the_last_ones_cleaning(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=ALL)
        await b.manager.admit(pod("p"))
        await b.prepare("p")
        gopher.post_stop_answer = hang = Gate(fine)
        await ended(b)
        await ended(b)
        start = asyncio.ensure_future(b.prepare("p"))
        await hang.entered.wait()
        assert gopher.calls_for_pods == ["Allocate", "PreStartContainer", "PostStopContainer"]
        hang.open.set()
        await start
        assert gopher.calls_for_pods[3:] == ["PreStartContainer"]


async def test_start_goes_on_without_confirmation_and_the_call_is_not_made_late(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=ALL)
        await b.manager.admit(pod("p"))
        await b.prepare("p")
        gopher.post_stop_answer = hang = Gate(fine)
        await ended(b)
        start = asyncio.ensure_future(b.prepare("p"))
        await hang.entered.wait()
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
    async with gated(sockets, release=limits) as b:
        gopher = await b.plugin("a", options=ALL)
        await b.manager.admit(pod("p"))
        await b.prepare("p")
        gopher.post_stop_answer = hang = Gate(fine)
        await ended(b)
        start = asyncio.ensure_future(b.prepare("p"))
        await hang.entered.wait()
        await b.clock.sleep_through(60.0)
        with pytest.raises(PostStopUnconfirmed):
            await start
        hang.open.set()
        await b.prepare("p")
        assert len(gopher.post_stopped) == 1


def sharing() -> PodRequest:
    """A pod whose ``app`` takes over the device a of ``init``, while ``beside`` has b for itself."""
    return pod("p", container("init", ContainerKind.INIT, gopher=1), *(container(c, gopher=1) for c in APPS))


async def test_next_user_of_a_device_waits_for_a_slow_cleaning_and_nobody_else_does(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", "b", options=ALL)
        await b.manager.admit(sharing())
        await b.prepare("p", "init")
        gopher.post_stop_answer = hang = Gate(fine)
        await ended(b, name="init")
        start = asyncio.ensure_future(b.prepare("p", "app"))
        await hang.entered.wait()
        await b.prepare("p", "beside")
        assert gopher.pre_started == [("a",), ("b",)]
        hang.open.set()
        await start
        assert gopher.pre_started == [("a",), ("b",), ("a",)]


async def test_next_user_of_a_device_waits_while_its_cleaning_fails(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", "b", options=ALL)
        await b.manager.admit(sharing())
        await b.prepare("p", "init")
        gopher.post_stop_answer = Sequenced(INTERNAL, fine)
        await ended(b, name="init")
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
        gopher.post_stop_answer = refusing("FailedPrecondition", "too hot")
        await ended(b, name="init")
        await b.prepare("p", "app")
        assert gopher.calls_for_pods[3:] == ["PreStartContainer", "PostStopContainer", "PreStartContainer"]
        assert "too hot" in (await first_notice(b)).message


@pytest.mark.parametrize("unconfirmed", Unconfirmed)
async def test_next_user_of_a_device_whose_cleaning_hangs(sockets: Path, unconfirmed: Unconfirmed) -> None:
    async with gated(sockets, release=ReleaseLimits(on_unconfirmed=unconfirmed)) as b:
        gopher = await b.plugin("a", "b", options=ALL)
        await b.manager.admit(sharing())
        await b.prepare("p", "init")
        gopher.post_stop_answer = hang = Gate(fine)
        await ended(b, name="init")
        start = asyncio.ensure_future(b.prepare("p", "app"))
        await hang.entered.wait()
        await b.clock.sleep_through(60.0)
        if unconfirmed is Unconfirmed.FAIL:
            with pytest.raises(PostStopUnconfirmed, match="for container init is not confirmed"):
                await start
            hang.open.set()
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
        await ended(b)
        await b.prepare("p")
        assert "not confirmed within 0 s" in (await first_notice(b)).message
        b.manager.container_ended(P, ContainerName("app"), "i2")
        await b.release("p")
        await b.manager.until_deallocated(P)
        assert [each.kind for each in b.manager.release_operations()] == [
            OperationKind.POST_STOP,
            OperationKind.DEALLOCATE,
        ]


async def test_device_that_is_not_listed_any_more_is_deallocated_when_its_pod_ends(sockets: Path) -> None:
    """Not when it leaves the list, nor with the plugin's stream: q comes and goes after both (spec 12.6)."""
    async with gated(sockets) as b:
        gopher = await b.plugin("a", "b", options=BOTH)
        await b.admit(pod("p"))
        gopher.send([Device("b")])
        await b.counts(1, 1)
        gopher.end_streams()
        await b.counts(1, 0)
        await gopher.register(b.paths.registration_socket)
        await b.counts(1, 1)
        await b.admit(pod("q"))
        for uid in ("q", "p"):
            await b.release(uid)
            await b.manager.until_deallocated(PodUid(uid))
        assert gopher.calls_for_pods == ["Allocate", "Allocate", "Deallocate", "Deallocate"]
        assert [each.devices for each in gopher.deallocated] == [("b",), ("a",)]


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
        await ended(b)
        await b.release("p")
        await b.clock.sleep_through(0.5)
        await gopher.until_called("Allocate", "PostStopContainer", "PostStopContainer", "Deallocate")


async def test_calls_about_different_devices_go_side_by_side_up_to_the_limit(sockets: Path) -> None:
    async with gated(sockets, release=ReleaseLimits(parallel=2)) as b:
        gopher = await b.plugin("a", "b", "c", options=BOTH)
        gopher.deallocate_answer = hang = Gate(fine)
        for uid in "pqr":
            await b.manager.admit(pod(uid))
        for uid in "pqr":
            await b.release(uid)
        await gopher.until_called(*["Allocate"] * 3, "Deallocate", "Deallocate")
        assert len(gopher.deallocated) == 2
        hang.open.set()
        await b.counts(3, 3)
        assert sorted(each.devices for each in gopher.deallocated) == [("a",), ("b",), ("c",)]


# --- other programs, other settings ---------------------------------------------------------------------------------


async def pending_release(root: Path) -> FakePlugin:
    """Leave a manager's files behind: pod p's device is to be deallocated, pod q holds one."""
    async with gated(root) as b:
        gopher = await b.plugin("a", "b", options=BOTH)
        gopher.deallocate_answer = INTERNAL
        await b.manager.admit(pod("p"))
        await b.manager.admit(pod("q"))
        await b.release("p")
        await b.manager.until_deallocated(P)
    return gopher


async def test_14_kubelet_finds_nothing_but_its_own_checkpoint(sockets: Path) -> None:
    await pending_release(sockets)
    [checkpoint] = [path for path in (sockets / "device-plugins").iterdir() if not path.is_socket()]
    assert checkpoint.name == "kubelet_internal_checkpoint"
    entries = load(checkpoint.read_bytes(), source="ours").pod_device_entries
    assert entries is not None
    assert [(each.pod_uid, each.device_ids) for each in entries] == [("q", {-1: ("b",)})]


@pytest.mark.parametrize("holder", ["nobody", "somebody"])
async def test_14_and_back_from_a_kubelet(sockets: Path, holder: str) -> None:
    """What the kubelet gave to others meanwhile is not deallocated under their hands; the rest still is."""
    await pending_release(sockets)
    checkpoint = sockets / "device-plugins" / "kubelet_internal_checkpoint"
    elsewhere = sockets / "elsewhere"
    async with bench(elsewhere) as theirs:  # a manager without the feature stands in for the kubelet
        await theirs.plugin("a", "b")
        if holder == "somebody":
            await theirs.manager.admit(pod("r"))
    checkpoint.write_bytes((elsewhere / "device-plugins" / "kubelet_internal_checkpoint").read_bytes())
    async with gated(sockets) as b:
        assert bool(b.manager.releases.pending()) == (holder == "nobody")
        assert b.held("q") == {}


async def test_gate_switched_off_forgets_what_was_left(sockets: Path) -> None:
    await pending_release(sockets)
    async with bench(sockets) as b:
        gopher = await b.plugin("a", "b", options=BOTH)
        await b.release("q")
        assert gopher.calls_for_pods == []
    async with gated(sockets) as b:
        assert not b.manager.releases.pending()


async def test_limits_without_the_gate_are_pointed_out(sockets: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = "no effect without the feature gate DeviceManagerDeallocate"
    async with bench(sockets):
        pass
    async with gated(sockets, release=ReleaseLimits(wait_s=0)):
        assert told not in caplog.text
    async with bench(sockets, release=ReleaseLimits(wait_s=0)):
        assert told in caplog.text


async def test_restart_goes_on_with_the_same_operation(sockets: Path) -> None:
    before = await pending_release(sockets)
    async with gated(sockets) as b:
        gopher = await b.plugin("a", "b", options=BOTH)
        await gopher.until_called("Deallocate")
        assert operations(gopher) == operations(before)
        await b.counts(2, 2)


async def test_admitted_pod_leaves_no_intent(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        gopher.allocate_answer = Sequenced(INTERNAL, some_edits)
        await rejection(b.manager, pod("refused"))
        await b.manager.admit(pod("p"))
    async with open_store(sockets / "state" / "manager.db") as store:
        assert store.load().operations == ()
