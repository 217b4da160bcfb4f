"""Ctrl-C while the command is still being imported."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
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


@pytest.mark.parametrize(
    ("command", "slow"),
    [
        pytest.param(CONSOLE_SCRIPT, "__init__.py", id="script"),
        # Python imports the package before anything of ours can be done about it.
        pytest.param(MODULE, "cli.py", id="module"),
    ],
)
async def test_ctrl_c_during_imports_is_no_traceback(tmp_path: Path, command: tuple[str, str], slow: str) -> None:
    package = tmp_path / "plugbay"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(Path(plugbay.__file__).with_name("__main__.py"), package)
    (package / slow).write_text(SLOW_PACKAGE)
    search = os.pathsep.join((str(tmp_path), str(Path(plugbay_command.__file__).parent)))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *command), stdout=pipe, stderr=pipe, env={**os.environ, "PYTHONPATH": search}
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            assert await process.stdout.readline() == b"importing\n"
            process.send_signal(signal.SIGINT)
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (process.returncode, err) == (130, b"")


@pytest.mark.parametrize("command", [pytest.param(CONSOLE_SCRIPT, id="script"), pytest.param(MODULE, id="module")])
async def test_command_does_what_the_package_does(tmp_path: Path, command: tuple[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *command, "--root", str(tmp_path), "pod", "get"),
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE_S):
        _, err = await process.communicate()
    assert (process.returncode, err.startswith(b"plugbay: error: no plugbay node answers at ")) == (1, True)
