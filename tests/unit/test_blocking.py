"""The guard of the event loop finds what makes it wait, and nothing else."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockingError

import plugbay
from plugbay.kernel.files import write_durably
from tests.blocking import LoopGuard


def of_plugbay(source: str) -> Callable[..., Any]:
    """Function ``f`` of ``source``, compiled as if it stood in a module of plugbay."""
    names: dict[str, Any] = {"asyncio": asyncio, "time": time, "write_durably": write_durably}
    exec(compile(source, str(Path(plugbay.__file__).with_name("made_up.py")), "exec"), names)
    found: Callable[..., Any] = names["f"]
    return found


async def test_coroutine_that_waits_for_the_disk_is_found(tmp_path: Path, loop_guard: LoopGuard) -> None:
    waits = of_plugbay("async def f(path): write_durably(path, b'')")
    with pytest.raises(BlockingError, match=r"os\.fsync"):
        await waits(tmp_path / "file")
    assert "made_up.py" in loop_guard.found[0]
    loop_guard.found.clear()


async def test_callback_that_sleeps_is_found_though_its_error_is_lost(loop_guard: LoopGuard) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, _context: None)
    loop.call_soon(of_plugbay("def f(): time.sleep(0)"))
    await asyncio.sleep(0)
    assert [each.splitlines()[0] for each in loop_guard.found] == ["the event loop waits in time.sleep:"]
    loop_guard.found.clear()


async def test_threads_may_wait_and_so_may_a_test(tmp_path: Path, loop_guard: LoopGuard) -> None:
    await of_plugbay("async def f(path): await asyncio.to_thread(write_durably, path, b'')")(tmp_path / "file")
    write_durably(tmp_path / "other", b"")
    assert loop_guard.found == []


@pytest.mark.parametrize(
    ("name", "wait"),
    [
        ("sqlite3.Connection.execute", "sqlite3.connect(':memory:').execute('SELECT 1')"),
        ("sqlite3.Cursor.execute", "sqlite3.connect(':memory:').cursor().execute('SELECT 1')"),
        ("fcntl.flock", "fcntl.flock(0, fcntl.LOCK_EX)"),
        ("os.replace", "os.replace(path, path)"),
        ("os.waitpid", "os.waitpid(-1, 0)"),
    ],
)
async def test_each_kind_of_wait_is_found(tmp_path: Path, loop_guard: LoopGuard, name: str, wait: str) -> None:
    waits = of_plugbay(f"import fcntl, os, sqlite3\nasync def f(path): {wait}")
    with pytest.raises(BlockingError, match=re.escape(name)):
        await waits(tmp_path / "file")
    loop_guard.found.clear()
