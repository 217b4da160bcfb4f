"""What becomes of a journal that cannot be opened at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

import pytest

from plugbay import Assignment, Device, DevicePlugin, Modes, ReleasePolicy
from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.sdk.author.release_settings import ReleaseSettings
from plugbay.sdk.hooks.turns import Turns
from plugbay.sdk.release.evidence.pod_lists import Shared
from plugbay.sdk.release.hooks import ReleaseHooks
from plugbay.sdk.release.ledger.journal import Journal
from plugbay.sdk.release.ledger.ledger import Ledger, Trouble
from plugbay.sdk.release.release import Release
from plugbay.sdk.watching import watching
from tests.unit.sdk.release.test_journal import full_after

DEADLINE_S = 30
GOPHER = ResourceName("example.com/gopher")


class Slow(Journal):
    """It takes until it may be opened."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, GOPHER, "boot")
        self.is_entered, self.may_open = threading.Event(), threading.Event()

    def __enter__(self) -> Self:
        self.is_entered.set()
        assert self.may_open.wait(DEADLINE_S)
        return super().__enter__()


class Gopher(DevicePlugin):
    resource_name = GOPHER

    def discover(self) -> Sequence[Device]:
        return [Device("a")]

    def release(self, assignment: Assignment) -> None:
        pass


def release_of(plugin: DevicePlugin, paths: KubeletPaths) -> Release:
    shared = Shared(ReleaseSettings(), paths)
    return Release(plugin, paths, shared, ReleaseHooks(), starting=Turns(), resend=lambda: 0)


async def test_journal_is_free_when_who_opens_it_is_cancelled(tmp_path: Path) -> None:
    """Nothing can stop the thread that waits for the disk."""
    paths = KubeletPaths(tmp_path)
    release = Release(
        Gopher(), paths, Shared(ReleaseSettings(), paths), ReleaseHooks(), starting=Turns(), resend=lambda: 0
    )
    journal = Slow(tmp_path)
    release.ledger._journal = journal
    async with watching() as watches:
        opening = asyncio.ensure_future(release.open(watches, asyncio.Event()))
        assert await asyncio.to_thread(journal.is_entered.wait, DEADLINE_S)
        opening.cancel()
        await asyncio.wait([opening], timeout=0.1)
        assert not opening.done()
        journal.may_open.set()
        with suppress(asyncio.CancelledError):
            await opening
    release.close()
    with closing(Ledger(Journal(tmp_path, GOPHER, "boot"), GOPHER, Trouble.RAISED)) as following:
        following.open()
        assert following.is_ours


async def test_hardware_in_use_is_known_on_a_full_disk(tmp_path: Path) -> None:
    """Or it would be given in another mode."""
    paths, plugin = KubeletPaths(tmp_path), Gopher()
    plugin.modes = Modes(lambda device: device.id)
    release = Release(
        plugin, paths, Shared(ReleaseSettings(), paths), ReleaseHooks(), starting=Turns(), resend=lambda: 0
    )
    device = DeviceId("a")
    with closing(release.ledger) as before:
        before.open()
        use = before.begin({device: device}, "life")
        assert before.answered(use.key)
    with closing(release):
        async with watching() as watches:
            with full_after(0):
                await release.open(watches, asyncio.Event())
            assert plugin.modes.mode(GOPHER).used == {device}


@pytest.mark.parametrize("policy", ReleasePolicy)
async def test_who_is_strict_waits_until_it_can_be_read_what_pods_have(tmp_path: Path, policy: ReleasePolicy) -> None:
    """Without a journal, a device that cannot be seen in use would count as clean."""
    paths, plugin = KubeletPaths(tmp_path), Gopher()
    plugin.release_policy = policy
    paths.checkpoint.mkdir(parents=True)  # which cannot be read as a file
    release = Release(
        plugin, paths, Shared(ReleaseSettings(), paths), ReleaseHooks(), starting=Turns(), resend=lambda: 0
    )
    with closing(release):
        async with watching() as watches, asyncio.timeout(DEADLINE_S):
            opening = asyncio.ensure_future(release.open(watches, asyncio.Event()))
            if policy is ReleasePolicy.STRICT:
                await asyncio.wait([opening], timeout=0.3)
                assert not opening.done()
                paths.checkpoint.rmdir()
                entry = PodDevicesEntry("p", "app", GOPHER, {0: ["a"]}, b"")
                paths.checkpoint.write_bytes(encode(CheckpointData([entry], {GOPHER: ["a"]})))
            await opening
        assert len(release.ledger.uses()) == (policy is ReleasePolicy.STRICT)
