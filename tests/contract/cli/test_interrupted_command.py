"""Signals that come while a command, or a plugin, is still being loaded."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

DEADLINE_S = 30
MODULE = (sys.executable, "-m", "plugbay")
SLOW_PLUGIN = """
import time
print("importing", flush=True)
for _ in range(6000):
    time.sleep(0.1)  # often, because Python misses a signal that comes just before the kernel puts it to sleep
"""
SLOW_IMPORT = """
import sys, time
from plugbay.cli.main import run

class Slow:
    def find_spec(self, name, path, target=None):
        if name == "plugbay.cli.node.foreground":
            print("importing", flush=True)
            for _ in range(6000):
                time.sleep(0.1)

sys.meta_path.insert(0, Slow())
sys.exit(run())
"""
"""The ``plugbay`` command, for which the node takes long to import."""


async def signalled(number: signal.Signals, *argv: str) -> tuple[int | None, bytes]:
    """How a command ends that gets a signal after it has printed "importing"."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdout=pipe, stderr=pipe)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            assert await process.stdout.readline() == b"importing\n"
            process.send_signal(number)
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, err


@pytest.fixture
def slow(tmp_path: Path) -> str:
    """A plugin's file that takes long to load."""
    (tmp_path / "p.py").write_text(SLOW_PLUGIN)
    return str(tmp_path / "p.py")


@pytest.mark.parametrize("command", ["serve", "devices"])
async def test_ctrl_c_is_no_traceback(slow: str, tmp_path: Path, command: str) -> None:
    assert await signalled(signal.SIGINT, *MODULE, "--root", str(tmp_path), command, slow) == (130, b"")


async def test_plugin_that_is_just_being_loaded_ends_well(slow: str, tmp_path: Path) -> None:
    assert await signalled(signal.SIGTERM, *MODULE, "--root", str(tmp_path), "serve", slow) == (0, b"")


async def test_node_that_is_just_being_imported_ends_well(tmp_path: Path) -> None:
    command = (sys.executable, "-c", SLOW_IMPORT, "--root", str(tmp_path), "node", "up")
    assert await signalled(signal.SIGTERM, *command) == (0, b"")


async def test_other_commands_end_by_the_signal(slow: str) -> None:
    assert await signalled(signal.SIGTERM, *MODULE, "devices", slow) == (-signal.SIGTERM, b"")
