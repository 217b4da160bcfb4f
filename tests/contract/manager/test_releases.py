"""Deallocate by the manager alone, to plugins that are away or fail, on real sockets and a clock that the test moves.

Numbers are those of the proposal's list of tests (spec 12.12); the others are in ``test_deallocate.py``.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import RpcCode
from plugbay.manager.config import Exhaustion, ReleaseLimits
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.health import unhealthy
from plugbay.model.ids import PodUid
from plugbay.model.releases import OperationKind
from plugbay.testing.fakes.plugin import refusing
from tests.contract.rigs.manager import GOPHER, Gate, never, pod, rejection
from tests.contract.rigs.release import BOTH, INTERNAL, P, Sequenced, ended, fine, first_notice, gated, operations


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
        ended(b)
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
        gopher.deallocate_answer = gopher.post_stop_answer = refusing(RpcCode.UNIMPLEMENTED, "unknown method")
        for uid in ("p", "q"):
            await b.manager.admit(pod(uid))
            ended(b, uid)
            await b.release(uid)
            await b.manager.until_deallocated(PodUid(uid))
            await b.counts(1, 1)
        calls = ["Allocate", "PostStopContainer", "Deallocate", "Allocate"]
        assert gopher.calls_for_pods == calls
        await gopher.register(b.paths.registration_socket)
        await b.counts(1, 1)
        await b.manager.admit(pod("r"))
        ended(b, "r")
        await gopher.until_called(*calls, "Allocate", "PostStopContainer")


async def test_13_missing_method_is_told_once(sockets: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also when several calls find out at a time."""
    async with gated(sockets) as b:
        gopher = await b.plugin("a", "b", options=BOTH)
        gopher.deallocate_answer = together = Gate(refusing(RpcCode.UNIMPLEMENTED, "unknown method"))
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
        (RpcCode.INVALID_ARGUMENT, True),
        (RpcCode.NOT_FOUND, True),
        (RpcCode.FAILED_PRECONDITION, True),
        (RpcCode.PERMISSION_DENIED, True),
        (RpcCode.OUT_OF_RANGE, True),
        (RpcCode.UNAVAILABLE, False),
        (RpcCode.DEADLINE_EXCEEDED, False),
        (RpcCode.ABORTED, False),
        (RpcCode.RESOURCE_EXHAUSTED, False),
        (RpcCode.INTERNAL, False),
        (RpcCode.UNKNOWN, False),
        (RpcCode.CANCELLED, False),
        (RpcCode.DATA_LOSS, False),
    ],
)
async def test_answers(sockets: Path, code: RpcCode, is_final: bool) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        gopher.deallocate_answer = refusing(code, "because")
        await b.manager.admit(pod("p"))
        await b.release("p")
        notice = await first_notice(b)
        assert (notice.pod, notice.container, notice.kind) == ("p", "", OperationKind.DEALLOCATE)
        assert f"rpc error: code = {code.value} desc = because" in notice.message
        if is_final:
            await b.counts(1, 1)
        else:
            await b.clock.until_asleep(0.5)
            assert b.manager.resources()[GOPHER].allocatable == 0


async def test_hanging_call_has_a_deadline(sockets: Path) -> None:
    async with gated(sockets, release=ReleaseLimits(attempt_timeout_s=0.2)) as b:
        gopher = await b.plugin("a", options=BOTH)
        gopher.deallocate_answer = never
        await b.manager.admit(pod("p"))
        await b.release("p")
        await b.clock.until_asleep(0.5)  # the call is over, and tried again then
        notice = await first_notice(b)
        assert "code = DeadlineExceeded" in notice.message
        assert b.manager.resources()[GOPHER].allocatable == 0


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
