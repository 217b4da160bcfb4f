"""What becomes of the journal when serving ends before it has begun."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

from plugbay import Assignment, Device, DevicePlugin
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import ResourceName
from plugbay.sdk.release.book import Book
from plugbay.sdk.release.custody import Custody
from plugbay.sdk.release.hooks import ReleaseHooks
from plugbay.sdk.release.journal import Journal
from plugbay.sdk.release.kept import Trouble
from plugbay.sdk.release.quiet import Shared
from plugbay.sdk.release.settings import ReleaseSettings
from plugbay.sdk.watching import watching

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


async def test_journal_is_free_when_who_opens_it_is_cancelled(tmp_path: Path) -> None:
    """Nothing can stop the thread that waits for the disk."""
    paths = KubeletPaths(tmp_path)
    custody = Custody(Gopher(), paths, Shared(ReleaseSettings(), paths), ReleaseHooks(), lambda: 0)
    journal = Slow(tmp_path)
    custody.book = Book(journal, GOPHER, Trouble.RAISED)
    async with watching() as watches:
        opening = asyncio.ensure_future(custody.open(watches, asyncio.Event()))
        assert await asyncio.to_thread(journal.is_entered.wait, DEADLINE_S)
        opening.cancel()
        await asyncio.wait([opening], timeout=0.1)
        assert not opening.done()
        journal.may_open.set()
        with suppress(asyncio.CancelledError):
            await opening
    custody.close()
    with closing(Book(Journal(tmp_path, GOPHER, "boot"), GOPHER, Trouble.RAISED)) as following:
        following.open()
        assert following.is_ours
