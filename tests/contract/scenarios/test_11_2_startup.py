"""Spec 11.2: start, stop, and the device plugin directory."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from plugbay.errors import PathUnusable
from plugbay.manager.serving.snapshot import ResourceCount
from plugbay.testing.fakes.plugin import fake_plugin
from tests.contract.rigs.manager import GOPHER, bench, listed

CHECKPOINTS: Final = Path(__file__).parents[2] / "golden/checkpoints"


def leave_socket(path: Path) -> None:
    """What a process that died leaves."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))


async def test_s020_start_removes_sockets_and_links_to_them_and_nothing_else(sockets: Path) -> None:
    directory = sockets / "device-plugins"
    (directory / "sub").mkdir(parents=True)
    for path in (directory / "a.sock", directory / "b.sock", directory / "sub" / "c.sock", sockets / "d.sock"):
        leave_socket(path)
    (directory / "file").touch()
    (directory / "dangling").symlink_to("nowhere")
    (directory / "link").symlink_to(sockets / "d.sock")
    shutil.copy(CHECKPOINTS / "02-registered-only.json", directory / "kubelet_internal_checkpoint")
    async with bench(sockets):
        assert sorted(path.name for path in directory.iterdir()) == [
            "dangling",
            "file",
            "kubelet.sock",
            "kubelet_internal_checkpoint",
            "sub",
        ]
        assert (directory / "sub" / "c.sock").is_socket()
        assert (sockets / "d.sock").is_socket()


async def test_s021_missing_directory_is_made(sockets: Path) -> None:
    async with bench(sockets / "new") as b:
        assert [path.name for path in b.paths.device_plugins.iterdir()] == ["kubelet.sock"]
        assert b.paths.registration_socket.is_socket()
        mask = os.umask(0)
        os.umask(mask)
        assert stat.S_IMODE(b.paths.device_plugins.stat().st_mode) == 0o755 & ~mask


async def test_s022_relative_root_is_refused(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sockets)
    with pytest.raises(PathUnusable, match=r"kubelet\.sock: bad socketPath, must be an absolute path$"):
        async with bench(Path("here")):
            pass
    assert not list(sockets.iterdir())


async def test_s023_corrupt_checkpoint_starts_empty(sockets: Path) -> None:
    """A kubelet leaves the bad file until its next write and then loses it; ours keeps it beside the store."""
    corrupt = (CHECKPOINTS / "50-wrong-checksum.json").read_bytes()
    (sockets / "device-plugins").mkdir()
    (sockets / "device-plugins" / "kubelet_internal_checkpoint").write_bytes(corrupt)
    async with bench(sockets) as b:
        assert b.manager.resources() == {}
        assert b.manager.assigned_pods() == frozenset()
        assert b.paths.checkpoint.read_bytes() == corrupt
    (aside,) = (sockets / "state").glob("*corrupt*")
    assert aside.read_bytes() == corrupt


async def test_s024_stop_without_plugins_and_after_a_failed_start_is_harmless(sockets: Path) -> None:
    """A manager is a block that cannot be left twice; what stands for that is one whose start failed."""
    (sockets / "plugins_registry").touch()
    for _ in range(2):
        with pytest.raises(PathUnusable):
            async with bench(sockets):
                pass
    (sockets / "plugins_registry").unlink()
    for _ in range(2):
        async with bench(sockets) as b:
            assert b.paths.registration_socket.is_socket()
        assert not b.paths.registration_socket.exists()


async def test_s025_stop_hangs_up_on_plugins_and_leaves_nothing_allocatable(sockets: Path) -> None:
    path = sockets / "device-plugins" / "p.sock"
    path.parent.mkdir()
    async with AsyncExitStack() as stack:
        async with bench(sockets) as b:
            plugin = await stack.enter_async_context(fake_plugin(GOPHER, path, listed("ab")))
            await plugin.register(b.paths.registration_socket)
            await b.counts(2, 2)
        await plugin.until_unwatched()
        assert b.manager.resources() == {GOPHER: ResourceCount(2, 0)}
