"""Signals that come while the command is still being imported."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import plugbay
import plugbay_command

DEADLINE_S = 30
SLOW_PACKAGE = """
import time
print("importing", flush=True)
time.sleep(600)
"""
CONSOLE_SCRIPT = ("-c", "import sys; from plugbay_command import run; sys.exit(run())")
"""As installers make it from the entry point."""
MODULE = ("-m", "plugbay")


@dataclass(frozen=True)
class Importing:
    """A command that is still being imported, for as long as one likes."""

    command: tuple[str, str]
    slow: str


@pytest.fixture(
    params=[
        pytest.param(Importing(CONSOLE_SCRIPT, "__init__.py"), id="script"),
        # Python imports the package before anything of ours can be done about it.
        pytest.param(Importing(MODULE, "cli.py"), id="module"),
    ]
)
def importing(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The beginning of its command line."""
    chosen: Importing = request.param
    package = tmp_path / "plugbay"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(Path(plugbay.__file__).with_name("__main__.py"), package)
    (package / chosen.slow).write_text(SLOW_PACKAGE)
    search = os.pathsep.join((str(tmp_path), str(Path(plugbay_command.__file__).parent)))
    return ["env", f"PYTHONPATH={search}", sys.executable, *chosen.command]


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


async def test_ctrl_c_during_imports_is_no_traceback(importing: list[str]) -> None:
    assert await signalled(signal.SIGINT, *importing) == (130, b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("words", [("serve", "p.py"), ("--root", "r", "node", "up")], ids=["serve", "node-up"])
async def test_command_that_lasts_ends_well_even_if_it_has_not_begun(
    importing: list[str], words: tuple[str, ...], number: signal.Signals
) -> None:
    assert await signalled(number, *importing, *words) == (0, b"")


async def test_terminal_that_closes_ends_a_node_that_has_not_begun(importing: list[str]) -> None:
    assert await signalled(signal.SIGHUP, *importing, "node", "up") == (0, b"")


async def test_other_commands_end_by_the_signal(importing: list[str]) -> None:
    assert await signalled(signal.SIGTERM, *importing, "pod", "get") == (-signal.SIGTERM, b"")


async def test_plugin_that_is_just_being_loaded_ends_well(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(SLOW_PACKAGE)
    argv = (sys.executable, *MODULE, "--root", str(tmp_path), "serve", str(tmp_path / "p.py"))
    assert await signalled(signal.SIGTERM, *argv) == (0, b"")


@pytest.mark.parametrize("command", [pytest.param(CONSOLE_SCRIPT, id="script"), pytest.param(MODULE, id="module")])
async def test_command_does_what_the_package_does(tmp_path: Path, command: tuple[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *command, "--root", str(tmp_path), "pod", "get"),
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE_S):
        _, err = await process.communicate()
    assert (process.returncode, err.startswith(b"plugbay: error: no plugbay node answers at ")) == (1, True)
