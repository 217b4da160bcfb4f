"""How often is looked, and from when on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plugbay import Device, DevicePlugin
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import ResourceName
from plugbay.sdk.release.custody import Custody
from plugbay.sdk.release.hooks import ReleaseHooks
from plugbay.sdk.release.quiet import Shared
from plugbay.sdk.release.settings import ReleaseSettings
from plugbay.sdk.release.sweep import Sweep, jittered

DEADLINE_S = 20.0


class Gophers(DevicePlugin):
    resource_name = ResourceName("example.com/gopher")

    def discover(self) -> list[Device]:
        return []


def custody(directory: Path) -> Custody:
    paths = KubeletPaths(directory)
    shared = Shared(ReleaseSettings(directory=directory / "journals"), paths)
    return Custody(Gophers(), paths, shared, ReleaseHooks(), lambda: 0)


@contextmanager
def told(what: str) -> Iterator[asyncio.Event]:
    """Set once the sweep says so."""
    said = asyncio.Event()
    handler = logging.Handler()
    handler.emit = lambda record: said.set() if what in record.getMessage() else None  # type: ignore[method-assign]
    logger = logging.getLogger("plugbay.sdk.release.sweep")
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def test_interval_varies_and_no_look_comes_late() -> None:
    waits = [jittered(30.0) for _ in range(200)]
    assert all(24.0 <= wait <= 30.0 for wait in waits)
    assert max(waits) - min(waits) > 1.0


async def test_lock_that_cannot_be_opened_is_waited_for_later(tmp_path: Path) -> None:
    keeper, ours = custody(tmp_path), custody(tmp_path)
    keeper.book.open()
    ours.book.open()
    (tmp_path / "journals").rename(tmp_path / "gone")
    sweeping = asyncio.create_task(Sweep(ours).run())
    try:
        async with asyncio.timeout(DEADLINE_S):
            with told("cannot wait") as said:
                await said.wait()
            (tmp_path / "gone").rename(tmp_path / "journals")
            with told("this process releases devices") as said:
                keeper.close()
                await said.wait()
        assert ours.book.is_ours
    finally:
        sweeping.cancel()
        await asyncio.wait([sweeping])
        keeper.close()
        ours.close()
