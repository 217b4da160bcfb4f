"""A plugin's process to which the kernel tells nothing about files: it looks for itself, now and then."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.fakes.kubelet import fake_kubelet
from tests.contract.rigs import without_inotify

DEADLINE_S: Final = 30
RESOURCE: Final = "example.com/gopher"


async def test_plugin_without_inotify_lives_with_kubelets_and_devices_that_come_and_go(sockets: Path) -> None:
    if await code_of("--version") == without_inotify.NO_SUCH_THING:
        pytest.skip("this kernel has no filters of system calls")
    things = sockets / "things"
    things.mkdir()
    (things / "a").touch()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, without_inotify.__file__, "--root", str(sockets)),
        *("serve", "directory", "--resource", RESOURCE, "--path", str(things), "--env", "G"),
        stderr=asyncio.subprocess.PIPE,
    )
    log = asyncio.ensure_future(process.communicate())
    try:
        async with fake_kubelet(KubeletPaths(sockets)) as kubelet:
            plugin = await kubelet.next_registration()
            await plugin.until_devices("a")
            (things / "b").touch()
            await plugin.until_devices("a", "b")
            await kubelet.restart()
            plugin = await kubelet.next_registration()
            await plugin.until_devices("a", "b")
            plugin.socket.unlink()
            await (await kubelet.next_registration()).until_devices("a", "b")
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        _, said = await asyncio.wait_for(log, DEADLINE_S)
    assert (process.returncode, b"Traceback" in said) == (0, False)
    assert said.count(b"Too many open files; looking every 1.0 s instead") == 1


async def code_of(*arguments: str) -> int:
    process = await asyncio.create_subprocess_exec(
        sys.executable, without_inotify.__file__, *arguments, stdout=asyncio.subprocess.DEVNULL
    )
    return await process.wait()
