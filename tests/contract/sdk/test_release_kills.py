"""An author's `release`, when the plugin or our manager is killed during or after it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay.manager.crash_points import CrashPoint
from tests.contract.manager.test_durability import CHILD, DEVICES, Killed, ManagerProcess
from tests.contract.manager.test_release_crashes import GATE
from tests.contract.rigs.manager import DEADLINE_S, pod
from tests.contract.rigs.release import gated
from tests.contract.rigs.sdk_release import Blocked, Cleaning
from tests.contract.rigs.serving import serving

CLEANER = """
import pathlib, sys, time
from plugbay import Device, DevicePlugin, run

class Cleaner(DevicePlugin):
    resource_name = "example.com/gopher"

    def discover(self):
        return [Device("a")]

    def release(self, assignment):
        print(assignment.key, flush=True)
        if sys.argv[2] == "hang":
            time.sleep(1000)

run(Cleaner(), argv=["--root", sys.argv[1]])
"""


@asynccontextmanager
async def cleaner(root: Path, how: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLEANER, str(root), how, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def key_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        return (await process.stdout.readline()).decode().strip()


async def test_plugin_is_killed_during_its_release(sockets: Path) -> None:
    async with gated(sockets) as b:
        async with cleaner(sockets, "hang") as process:
            await b.counts(1, 1)
            await b.manager.admit(pod("p"))
            await b.release("p")
            before = await key_of(process)
            process.kill()
            await b.counts(1, 0)
        async with cleaner(sockets, "work") as process:
            assert await key_of(process) == before
            await b.counts(1, 1)


@asynccontextmanager
async def bare_manager(root: Path, *fate: str) -> AsyncIterator[ManagerProcess]:
    """`crashing_manager.py` with the gate on, and no plugin."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(CHILD),
        str(root),
        *fate,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"FEATURE_GATES": GATE},
    )
    manager = ManagerProcess(process)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.read())
            await manager.answer_to(0)
            yield manager
            if process.returncode is None:
                await manager.stop()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_manager_is_killed_during_the_release(sockets: Path) -> None:
    """The hook goes on; the next manager's repeat joins it."""
    gopher = Blocked(*(f"g{number}" for number in range(DEVICES)))
    async with serving(gopher, sockets):
        async with bare_manager(sockets) as manager:
            await manager.ask("wait")
            await manager.ask("admit", pod="p", count=1)
            asking = asyncio.ensure_future(manager.ask("release", pod="p"))
            await gopher.until_entered()
            manager.process.kill()
            with pytest.raises(Killed):
                await asking
            assert await manager.process.wait() == -signal.SIGKILL
        async with bare_manager(sockets) as manager:
            await manager.ask("wait")
            gopher.open.set()
            await manager.ask("settled")
            assert "held" in await manager.ask("admit", pod="q", count=DEVICES)
    assert gopher.told == ["release g0"]


async def test_manager_is_killed_after_the_release(sockets: Path) -> None:
    """It asks again, as it may not have heard the answer; the hook is not called again."""
    gopher = Cleaning(*(f"g{number}" for number in range(DEVICES)))
    async with serving(gopher, sockets):
        async with bare_manager(sockets, CrashPoint.CALLED_DEALLOCATE.value, "1") as manager:
            await manager.ask("wait")
            await manager.ask("admit", pod="p", count=1)
            with pytest.raises(Killed):
                await manager.ask("release", pod="p")
            assert await manager.process.wait() == -signal.SIGKILL
        async with bare_manager(sockets) as manager:
            await manager.ask("wait")
            await manager.ask("settled")
            assert "held" in await manager.ask("admit", pod="q", count=DEVICES)
    assert gopher.told == ["release g0"]
