"""Commands of an operator: what is told of them, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from plugbay.plugins.generic.serving.commands import CommandOutcome, run_command

ENVIRON = {"PATH": os.environ["PATH"]}


async def run(*words: str, timeout_s: float = 30.0) -> CommandOutcome:
    return await run_command(words, environ=ENVIRON, timeout_s=timeout_s)


async def shell(script: str, timeout_s: float = 30.0) -> CommandOutcome:
    return await run("sh", "-c", script, timeout_s=timeout_s)


async def test_success_has_no_problem() -> None:
    assert await run("true") == CommandOutcome()


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("echo; echo ' worn out '; echo more >&2; exit 3", CommandOutcome("ended with exit code 3", "worn out")),
        ("kill -9 $$", CommandOutcome("was ended by signal 9")),
        (r"printf '\033[31mred\007'; exit 1", CommandOutcome("ended with exit code 1", r"\x1b[31mred\x07")),
        ("echo to stderr >&2; false", CommandOutcome("ended with exit code 1", "to stderr")),
    ],
)
async def test_failure_is_told_with_the_first_line(script: str, outcome: CommandOutcome) -> None:
    assert await shell(script) == outcome


async def test_a_program_that_is_not_there_is_a_failure() -> None:
    outcome = await run("no-such-program")
    assert outcome.problem == "was not found"
    assert "no-such-program" in outcome.said


async def test_a_command_that_says_much_does_not_wait() -> None:
    outcome = await run(sys.executable, "-c", "print('x' * (1 << 20)); raise SystemExit(7)")
    assert outcome.problem == "ended with exit code 7"
    assert outcome.said == "x" * 1024


async def until_gone(pid: int) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                return
            if state == "Z":
                return
            await asyncio.sleep(0.01)


async def until_written(file: Path) -> int:
    async with asyncio.timeout(30):
        while not (file.exists() and file.read_text().endswith("\n")):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
    return int(file.read_text())


async def test_a_late_command_is_killed_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    outcome = await shell(f"sleep 600 & echo $! > {pid}; echo begun; wait", timeout_s=3.0)
    assert outcome == CommandOutcome("did not end within 3 s and was killed", "begun", is_late=True)
    await until_gone(await until_written(pid))


@pytest.mark.parametrize("session", ["", "setsid "], ids=["its session", "its own session"])
async def test_what_a_command_leaves_in_the_background_is_killed(session: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    assert await shell(f"{session}sleep 600 & echo $! > {pid}") == CommandOutcome()
    await until_gone(await until_written(pid))


async def test_cancelling_kills_the_command(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    task = asyncio.create_task(shell(f"echo $$ > {pid}; exec sleep 600"))
    number = await until_written(pid)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until_gone(number)


async def test_no_descriptor_is_left() -> None:
    await run("true")
    before = set(os.listdir("/proc/self/fd"))
    await shell("echo words; exit 1")
    assert set(os.listdir("/proc/self/fd")) == before


async def test_a_command_has_its_environment_only() -> None:
    os.environ["SECRET_OF_THE_TEST"] = "1"
    try:
        assert (await shell("env | grep SECRET_OF_THE_TEST")).problem == "ended with exit code 1"
    finally:
        del os.environ["SECRET_OF_THE_TEST"]
