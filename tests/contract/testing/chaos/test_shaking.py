"""Chaos with real plugins: those that stand it, and animals of the zoo that do not."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import pytest

from plugbay.errors import PluginProgramFailed
from plugbay.ops.tasks import background
from plugbay.testing.chaos import invariants
from plugbay.testing.chaos.kept_program import KeptProgram
from plugbay.testing.chaos.shaking import ChaosOutcome, ChaosSettings, shake, shrink_outcome
from plugbay.testing.chaos.steps import StepKind, parse_steps, steps_text
from plugbay.testing.conformance.subject.command import PluginCommand
from tests.contract.conftest import DEADLINE_S
from tests.contract.testing.tracing.test_trace_command import GOPHERS, SERVE

REPOSITORY: Final = Path(__file__).parents[4]
ENVIRON: Final = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
SOON_S: Final = 3.0
"""A plugin that ignores what happens is judged after so long."""
EVERYTHING: Final = """
allocate 4
restart 0.1
crash 0.05
restart-keeping 0.1
slow 0.05
allocate 8
freeze 0.2
calm
hang
crash 0
pause 0.2
check
refuse 2
remove-sockets
restart 0
remake-directory 0.1
kill
reset-streams
terminate
reset-connections
allocate 4
restart 0
"""


def animal(name: str, *, recover_s: float = DEADLINE_S) -> ChaosSettings:
    command = (sys.executable, "-m", "tests.contract.testing.zoo", name, "{plugins}")
    return ChaosSettings(PluginCommand(command), ENVIRON, recover_s)


async def shaken(settings: ChaosSettings, text: str) -> ChaosOutcome:
    return await shake(settings, parse_steps(text, "steps"))


def test_everything_is_everything() -> None:
    assert {step.kind for step in parse_steps(EVERYTHING, "steps")} == set(StepKind)


async def test_plugin_of_ours_stands_everything(tmp_path: Path) -> None:
    (tmp_path / "gophers.py").write_text(GOPHERS)
    command = PluginCommand((*SERVE, str(tmp_path / "gophers.py")))
    outcome = await shaken(ChaosSettings(command, os.environ, DEADLINE_S), EVERYTHING)
    assert outcome.problems == ()
    assert outcome.endings == ()
    assert len(outcome.steps) == len(parse_steps(EVERYTHING, "steps"))
    assert {"Register", "ListAndWatch", "Allocate"} <= {record.name for record in outcome.records}


async def test_animal_without_a_fault_stands_everything() -> None:
    outcome = await shaken(animal("healthy"), EVERYTHING)
    assert outcome.problems == ()


async def test_what_ignores_restarts_fails_and_shrinks_to_one() -> None:
    settings = animal("ignores-restart", recover_s=SOON_S)
    outcome = await shaken(settings, "pause 0.05\nallocate 2\nrestart 0.05\npause 0.05\n")
    [problem] = outcome.problems
    assert problem.startswith(
        "zoo.example/animal 3 s after the faults: its plugin has not registered since the kubelet started; "
        "ant is missing, bee is missing"
    )
    told: list[tuple[int, int]] = []
    shortest = await shrink_outcome(
        settings, outcome, within_s=600, tell=lambda failing, trying: told.append((failing, trying))
    )
    assert steps_text(shortest.steps) == "restart 0.05\n"
    assert told[0] == (4, 0)


async def test_run_ends_at_the_check_that_finds_something() -> None:
    outcome = await shaken(animal("ignores-hang-up", recover_s=SOON_S), "reset-streams\ncheck\nkill\n")
    assert steps_text(outcome.steps) == "reset-streams\n"
    [problem] = outcome.problems
    assert "is gone; ant is Unknown, and was Healthy" in problem


async def test_open_files_that_grow_are_found() -> None:
    outcome = await shaken(animal("leaks-server"), "restart 0\ncheck\n" * 8)
    [problem] = outcome.problems
    assert problem.startswith("the plugin has ")
    assert "open files, and had " in problem


async def test_search_ends_when_its_time_is_over() -> None:
    settings = animal("ignores-restart", recover_s=SOON_S)
    outcome = await shaken(settings, "restart 0\npause 0.05\n")
    assert await shrink_outcome(settings, outcome, within_s=0, tell=lambda *_: None) is outcome


async def test_plugin_that_leaves_the_restart_to_kubernetes_is_well() -> None:
    outcome = await shaken(animal("exits-without-kubelet"), "restart 0.1\n")
    assert outcome.problems == ()
    assert set(outcome.endings) == {"ended with exit code 0"}


async def test_plugin_that_is_ended_by_a_signal_of_its_own_is_not_well(tmp_path: Path) -> None:
    dying = f"{sys.executable} -m tests.contract.testing.zoo exits-without-kubelet {{plugins}}; kill -SEGV $$"
    settings = ChaosSettings(PluginCommand(("sh", "-c", dying)), ENVIRON, DEADLINE_S)
    outcome = await shaken(settings, "restart 0.1\n")
    assert outcome.problems == ("the plugin was ended by SIGSEGV",)


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo no driver >&2; exit 3", "sh ended with exit code 3 before it was ready; the last that it printed:"),
        ("exec sleep 600", "sh has not registered and listed a healthy device within 0.5 s, and printed nothing"),
    ],
)
async def test_program_that_is_not_a_plugin(script: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "sleep" in script:
        monkeypatch.setattr(invariants, "READY_S", 0.5)
    with pytest.raises(PluginProgramFailed) as caught:
        await shaken(ChaosSettings(PluginCommand(("sh", "-c", script, "{root}")), os.environ), "kill\n")
    assert str(caught.value).startswith(problem)


async def test_program_is_killed_frozen_and_started_again() -> None:
    program = KeptProgram(PluginCommand(("sleep", "600"), {"ROOT": "{root}"}), Path("/tmp"), os.environ)
    async with asyncio.timeout(DEADLINE_S), background(program.keep(), name="program"):
        await program.kill()
        second = program.last
        assert second is not None
        freezing = asyncio.ensure_future(program.freeze(600))
        await until_state(second.pid, is_stopped=True)
        freezing.cancel()
        await asyncio.wait([freezing])
        await until_state(second.pid, is_stopped=False)
        await program.terminate()
        assert program.last is not second
        assert program.endings == []
        assert not program.crashed


async def until_state(pid: int, *, is_stopped: bool) -> None:
    """Wait until a process is stopped, or is not."""
    while True:
        stat = Path(f"/proc/{pid}/stat").read_text()
        if (stat.rpartition(")")[2].split()[0] == "T") is is_stopped:
            return
        await asyncio.sleep(0.01)


async def test_failure_that_outlives_its_run_is_not_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    once = f'test -e {tmp_path}/lock && echo locked && exit 5; touch {tmp_path}/lock; exec "$@"'
    healthy = animal("healthy").command.words
    settings = ChaosSettings(PluginCommand(("sh", "-c", once, "sh", *healthy)), ENVIRON, SOON_S)
    outcome = await shaken(settings, "pause 0.05\nkill\n")
    assert outcome.has_failed
    assert await shrink_outcome(settings, outcome, within_s=60, tell=lambda _, __: None) is outcome
    assert "the plugin fails without faults now, so no shorter sequence is looked for: sh ended with" in caplog.text
    assert "locked" in caplog.text
