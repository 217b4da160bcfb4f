"""ListAndWatch streams that are told to end before their plugin has sent anything."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plugbay.kubelet.paths import KubeletPaths
from plugbay.sdk.release.release import Release
from plugbay.sdk.serving.server import PluginServer
from plugbay.sdk.serving.service import PluginService
from tests.contract.rigs.manager import DEADLINE_S
from tests.contract.rigs.sdk_release import Cleaning


async def test_stream_ends_that_waits_for_a_look_at_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for the end of all streams waits for it, too; else it would stay beside a new registration."""
    looking, may_look = asyncio.Event(), asyncio.Event()

    async def stream_opened(_: Release, *__: object) -> None:
        looking.set()
        await may_look.wait()

    monkeypatch.setattr(Release, "stream_opened", stream_opened)
    gopher = Cleaning("a")
    service = PluginService(gopher, lambda: None, lambda _: None)
    service.release = PluginServer(gopher, KubeletPaths(tmp_path)).release
    first_list = asyncio.ensure_future(anext(service.lists(), None))
    await looking.wait()
    ending = asyncio.create_task(service.end_streams(DEADLINE_S))
    await asyncio.sleep(0)
    assert not ending.done()
    may_look.set()
    await ending
    assert await first_list is None
