"""Ctrl-C while the command is still being imported."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import plugbay_command

DEADLINE_S = 30
SLOW_PACKAGE = """
import time
print("importing", flush=True)
time.sleep(600)
"""
CONSOLE_SCRIPT = "import sys; from plugbay_command import run; sys.exit(run())"
"""As installers make it from the entry point."""


async def test_ctrl_c_during_imports_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "plugbay").mkdir()
    (tmp_path / "plugbay" / "__init__.py").write_text(SLOW_PACKAGE)
    search = os.pathsep.join((str(tmp_path), str(Path(plugbay_command.__file__).parent)))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CONSOLE_SCRIPT), stdout=pipe, stderr=pipe, env={**os.environ, "PYTHONPATH": search}
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


async def test_command_does_what_the_package_does(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CONSOLE_SCRIPT, "--root", str(tmp_path), "pod", "get"),
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE_S):
        _, err = await process.communicate()
    assert (process.returncode, err.startswith(b"plugbay: error: no plugbay node answers at ")) == (1, True)
