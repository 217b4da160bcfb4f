"""What a process of a plugin finds at its start: devices in use by the checkpoint, and the journal of one that died."""

from __future__ import annotations

import asyncio
from pathlib import Path

from plugbay import Origin
from plugbay.kernel.boot import read_boot_id
from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.assignments import AssignmentKey
from plugbay.sdk.author.release_settings import DIRECTORY_NAME, ReleaseSettings
from plugbay.sdk.release.evidence.pod_lists import Shared
from plugbay.sdk.release.ledger.journal import Journal
from plugbay.sdk.release.uses import Use, UsePhase
from plugbay.sdk.serving.server import PluginServer
from plugbay.sdk.watching import watching
from tests.contract.rigs.manager import DEADLINE_S, GOPHER
from tests.contract.sdk.test_release_giving import A, Gated, by_hand


async def test_devices_given_by_a_version_without_a_journal_are_adopted(sockets: Path) -> None:
    """By pod; a pod that is still listed goes on, one without a directory is gone, and what is known is not adopted."""
    entries = [
        PodDevicesEntry("p", "app", GOPHER, {0: ["a"]}, b""),
        PodDevicesEntry("p", "side", GOPHER, {-1: ["a", "b"]}, b""),
        PodDevicesEntry("q", "app", GOPHER, {0: ["c"]}, b""),
        PodDevicesEntry("q", "app", "example.com/other", {0: ["d"]}, b""),
    ]
    paths = KubeletPaths(sockets)
    paths.device_plugins.mkdir()
    paths.checkpoint.write_bytes(encode(CheckpointData(entries, {GOPHER: ["a", "b", "c", "d"]})))
    (sockets / "pods" / "other").mkdir(parents=True)
    gophers = Gated("a", "b", "c", "d")
    async with by_hand(sockets, gophers) as (hand, server):
        assert server.release is not None
        adopted = server.release.ledger.uses()
        assert sorted((sorted(use.units), use.phase) for use in adopted) == [
            (["a", "b"], UsePhase.OPEN),
            (["c"], UsePhase.OPEN),
        ]
        with server.release.context.shared.quiet.allocating():  # so that the look at the start sees nothing of it
            hand.writes = lambda: hand.lists("a", "b")
            await hand.allocate()
            assert gophers.released == []
            hand.writes = hand.lists
            await hand.allocate()
            assert [(each.units, each.origin) for each in gophers.released] == [(("a", "b"), Origin.SYNTHESISED)]
            left = {tuple(use.units) for use in server.release.ledger.uses()}
    paths.checkpoint.write_bytes(encode(CheckpointData(entries, {GOPHER: ["a", "b", "c", "d"]})))
    async with by_hand(sockets, gophers) as (_, server):
        assert server.release is not None
        again = {tuple(use.units) for use in server.release.ledger.uses()}
        assert again == left | {("b",)}


async def test_checkpoint_that_cannot_be_read_stops_no_start(sockets: Path) -> None:
    paths = KubeletPaths(sockets)
    paths.device_plugins.mkdir()
    paths.checkpoint.write_bytes(b"{")
    async with by_hand(sockets, Gated("a")) as (_, server):
        assert server.release is not None
        assert server.release.ledger.uses() == []


async def test_plugin_cancelled_while_it_ends_leaves_its_journal_to_the_next(sockets: Path) -> None:
    """Its CDI spec takes long, and somebody has lost patience."""
    is_closing = asyncio.Event()

    async def close() -> None:
        is_closing.set()
        await asyncio.Event().wait()

    gophers = Gated("a")
    gophers.cdi_kind = GOPHER
    paths = KubeletPaths(sockets)
    server = PluginServer(gophers, paths, cdi_directory=sockets / "cdi", shared=Shared(ReleaseSettings(), paths))
    assert server._cdi is not None
    assert server.release is not None
    server._cdi.close = close  # type: ignore[method-assign]
    async with watching() as watches:
        running = asyncio.create_task(server.run(watches))
        async with asyncio.timeout(DEADLINE_S):
            await server.looked.wait()
            server.stop()
            await is_closing.wait()
            running.cancel()
            await asyncio.wait([running])
    assert running.cancelled()
    assert not server.release.ledger.is_open


async def test_allocate_that_its_process_did_not_live_to_answer_is_undone(sockets: Path) -> None:
    journal = Journal(KubeletPaths(sockets).device_plugins / DIRECTORY_NAME, GOPHER, read_boot_id(Path("/proc")))
    use = Use(key=AssignmentKey("k"), resource=GOPHER, units={A: A}, since=0.0, life="")
    with journal, journal.alone():
        journal.append(use)
    gophers = Gated("a")
    async with by_hand(sockets, gophers) as (_, server):
        await gophers.until_told("release", "released")
        assert server.release is not None
    [assignment] = gophers.released
    assert (assignment.key, assignment.units, assignment.origin) == ("k", ("a",), Origin.SYNTHESISED)
