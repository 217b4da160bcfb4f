"""What a manager leaves of its releases to a kubelet, and to managers with other settings, on real sockets.

Numbers are those of the proposal's list of tests (spec 12.12); the others are in ``test_deallocate.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.kubelet.checkpoint import load
from plugbay.manager.config import ReleaseLimits
from plugbay.manager.store.store import open_store
from plugbay.testing.fakes.plugin import FakePlugin
from tests.contract.rigs.manager import bench, pod, rejection
from tests.contract.rigs.release import BOTH, INTERNAL, P, Sequenced, gated, operations, some_edits


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
