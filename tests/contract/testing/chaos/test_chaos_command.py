"""``plugbay chaos`` as a command."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.contract.conftest import DEADLINE_S, Done

PLUGBAY: Final = (sys.executable, "-m", "plugbay")
REPOSITORY: Final = Path(__file__).parents[4]
ZOO: Final = (sys.executable, "-m", "tests.contract.testing.zoo")
LONG_S: Final = 150


@asynccontextmanager
async def start(*words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = await asyncio.create_subprocess_exec(*PLUGBAY, *words, stdin=pipe, stdout=pipe, stderr=pipe, env=environ)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def chaos(*words: str, given: str = "") -> Done:
    """Run ``plugbay chaos`` to its end."""
    async with asyncio.timeout(LONG_S), start("chaos", *words) as process:
        out, err = await process.communicate(given.encode())
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())


async def test_runs_that_go_well() -> None:
    done = await chaos("--seed", "7", "--runs", "2", "--length", "5", "--", *ZOO, "healthy", "{plugins}")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert [line.partition(" in ")[0] for line in lines[:2]] == ["seed 7: 5 steps", "seed 8: 5 steps"]
    assert lines[2:] == ["2 runs, all well"]


async def test_failure_is_shortened_kept_and_played_again(tmp_path: Path) -> None:
    steps, trace = tmp_path / "steps.txt", tmp_path / "trace.jsonl"
    plugin = ("--recover", "2s", "--", *ZOO, "ignores-restart", "{plugins}")
    given = "pause 0.05\nrestart 0  # here it breaks\n"
    done = await chaos("--steps", "-", "-o", str(steps), "--trace", str(trace), *plugin, given=given)
    assert done.code == 1
    assert "steps: 2 steps in " in done.out
    assert "NOT WELL" in done.out
    assert "its plugin has not registered since the kubelet started" in done.out
    assert "1 step fails too, shrunk from 2 steps:\n" in done.out
    assert steps.read_text() == "# plugbay chaos: steps, shrunk from 2 steps\nrestart 0\n"
    assert f"play them again with --steps {steps}" in done.err
    again = await chaos("--steps", str(steps), "--shrink", "0", *plugin)
    assert again.code == 1
    assert "steps: 1 step in " in again.out
    async with start("trace", "--show", str(trace), "--only", "Register") as process:
        out, _ = await process.communicate()
        assert b"Register #1" in out
        assert process.returncode == 0


async def test_signal_ends_it_and_leaves_nothing() -> None:
    async with start("chaos", "--steps", "-", "--", *ZOO, "healthy", "{plugins}") as process:
        assert process.stdin is not None
        process.stdin.write(b"pause 600\n")
        process.stdin.close()
        await until_child(process.pid)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(DEADLINE_S):
            await process.wait()
        assert process.returncode == 130


async def until_child(pid: int) -> None:
    """Wait until a process has a child."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if children.read_text():
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "say what to disturb after --, such as: plugbay chaos -- ./my-plugin"),
        (["--steps", "x", "--seed", "1", "--", "true"], "--seed is for random steps, and --steps gives the steps"),
        (["--faults", "earthquake", "--", "true"], 'there is no fault "earthquake"; choose from restart, crash'),
        (["--runs", "0", "--", "true"], "--runs: wants a whole number, 1 or more"),
        (["--for", "soon", "--", "true"], "--for"),
    ],
)
async def test_misuse_is_told(words: list[str], problem: str) -> None:
    code, out, err = await chaos(*words)
    assert (code, out) == (2, "")
    assert problem in err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--", "false", "{root}"], "false ended with exit code 1 before it was ready, and printed nothing"),
        (["--", "/nowhere/plugin", "{root}"], "cannot be run: there is no such program, or it is not executable"),
        (["--steps", "-", "--", "true"], '-:1: "explode" is not a step'),
        (["-o", "/dev/null", "--", "true"], "/dev/null: this file is here already; give another one"),
        (["-o", "/nowhere/steps", "--", "true"], "/nowhere/steps: cannot be written: /nowhere is not a directory"),
    ],
)
async def test_what_does_not_work_is_one_sentence(words: list[str], problem: str) -> None:
    code, out, err = await chaos(*words, given="explode")
    assert (code, out) == (1, "")
    assert problem in err
    assert "Traceback" not in err
