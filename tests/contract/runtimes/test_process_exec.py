"""Commands beside a container of the process runtime, and what becomes of them when others die."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from plugbay.errors import ExecFailed
from plugbay.kernel import descendants
from plugbay.kernel.processes import read_stat, session_members
from plugbay.model.edits import ContainerEdits
from plugbay.runtimes.exec_input import Console, ExecInput
from plugbay.runtimes.port import ContainerSpec, ExecExit, ExecOutput, ExecStream, RunState
from plugbay.runtimes.supervised import launch
from tests.container_specs import changed
from tests.contract.rigs.process import PROC, processes_of, run, runtime_on, sh, spec, state_dir, until_ended

__all__ = ["spec", "state_dir"]


async def test_exec_has_the_containers_environment_and_directory(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        edits = ContainerEdits(env={"Gopher": "g1"})
        state = await runtime.start(changed(spec, working_dir="/usr", edits=edits))
        output, code = await run(runtime, state.id, "sh", "-c", "echo $Gopher; pwd; echo err >&2; exit 9")
        assert output == {ExecStream.STDOUT: b"g1\n/usr\n", ExecStream.STDERR: b"err\n"}
        assert code == 9
        assert await run(runtime, state.id, "sh", "-c", "kill -TERM $$") == (dict.fromkeys(ExecStream, b""), 143)


async def test_exec_streams_more_than_fits_in_a_buffer(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        output, code = await run(runtime, state.id, "head", "-c", "3000000", "/dev/zero")
        assert (len(output[ExecStream.STDOUT]), code) == (3_000_000, 0)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("no-such-program",), 'exec: "no-such-program": executable file not found in $PATH'),
        (("/etc/passwd",), 'exec: "/etc/passwd": permission denied'),
    ],
)
async def test_exec_of_what_cannot_run(state_dir: Path, spec: ContainerSpec, argv: tuple[str, ...], text: str) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        with pytest.raises(ExecFailed) as raised:
            await run(runtime, state.id, *argv)
        assert raised.value.problem == text


async def test_exec_needs_a_running_container(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(sh(spec, "exit 0"))
        await runtime.wait(state.id)
        with pytest.raises(ExecFailed, match="it is not running"):
            await run(runtime, state.id, "true")


def own_program(directory: Path) -> Path:
    """A copy of the wrapper's program, with the part that it has from elsewhere."""
    ignored = shutil.ignore_patterns("__pycache__")  # other tests write there meanwhile
    (directory / "kernel").symlink_to(Path(descendants.__file__).parent)
    return Path(shutil.copytree(launch.WRAPPER.parent, directory / "runtimes" / "supervised", ignore=ignored))


async def test_exec_is_refused_once_the_program_of_the_wrapper_is_gone(
    state_dir: Path, spec: ContainerSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loads its part for commands with the first one, and an update of plugbay may have come before."""
    program = own_program(tmp_path)
    monkeypatch.setattr(launch, "WRAPPER", program / "wrapper.py")
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        shutil.rmtree(program)
        with pytest.raises(ExecFailed, match="the plugbay that started it was replaced"):
            await run(runtime, state.id, "true")
        assert await runtime.list() == [state]


async def test_exec_is_refused_when_the_wrapper_cannot_load_its_part(
    state_dir: Path, spec: ContainerSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = own_program(tmp_path)
    (program / "exec_server.py").write_text("raise ImportError('this is of another version')")
    monkeypatch.setattr(launch, "WRAPPER", program / "wrapper.py")
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        for _ in range(2):
            with pytest.raises(ExecFailed, match="its wrapper takes no commands"):
                await run(runtime, state.id, "true")
        assert (await runtime.stop(state.id, grace_s=30)).exit_code == 143


async def test_a_wrapper_from_before_clients_could_attach_runs_commands(
    state_dir: Path, spec: ContainerSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update of plugbay takes the place of the part that it has not loaded yet."""
    program = own_program(tmp_path)
    newer = (program / "wrapper.py").read_text()
    (program / "wrapper.py").write_text(older := newer.replace(", output=output, given=given)", ")"))
    assert newer != older
    monkeypatch.setattr(launch, "WRAPPER", program / "wrapper.py")
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        with pytest.raises(ExecFailed, match="an older plugbay started it, and lets no client attach"):
            await anext(runtime.attach(state.id, ExecInput(Console.PIPES), gives_input=False))
        assert await run(runtime, state.id, "sh", "-c", "exit 7") == (dict.fromkeys(ExecStream, b""), 7)


async def test_leaving_exec_kills_the_command(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        async with aclosing(runtime.exec(state.id, ("sh", "-c", "echo $$; sleep 600"))) as items:
            item = await anext(items)
        assert isinstance(item, ExecOutput)
        assert read_stat(int(item.chunk), proc_root=PROC) is None
        assert await runtime.list() == [state]


async def test_exec_ends_with_its_container(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        items = runtime.exec(state.id, ("sh", "-c", "echo ready; sleep 600"))
        assert isinstance(await anext(items), ExecOutput)
        await runtime.stop(state.id, grace_s=0)
        assert [item async for item in items] == [ExecExit(137)]


PROMPT = """
import asyncio, os, pathlib, sys
from datetime import UTC, datetime
from plugbay.runtimes.process.unconfined import process_runtime

async def main():
    state_dir, container, *argv = sys.argv[1:]
    runtime = process_runtime(pathlib.Path(state_dir), environ=os.environ, clock=lambda: datetime.now(UTC))
    async for item in runtime.exec(container, argv):
        os.write(1, item.chunk)


asyncio.run(main())
"""

GROUPS = """
import os, subprocess
child = subprocess.Popen(["sleep", "600"], process_group=0)
print(os.getpid(), flush=True)
child.wait()
"""
SLEEPERS = {
    "one group": ("sh", "-c", "echo $$; sleep 600; true"),
    "a group of its own": (sys.executable, "-c", GROUPS),  # as job control makes them
}


@pytest.mark.parametrize("command", SLEEPERS.values(), ids=SLEEPERS)
async def test_a_command_ends_with_the_node_that_runs_it(
    state_dir: Path, spec: ContainerSpec, command: tuple[str, ...]
) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        argv = (sys.executable, "-c", PROMPT, str(state_dir), state.id, *command)
        node = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE)
        assert node.stdout is not None
        leader = int(await node.stdout.readline())
        node.kill()
        await node.wait()
        await until_ended(leader)
        # The fixture looks for the rest of its session.
        assert await runtime.list() == [state]


async def test_a_command_ends_with_a_container_that_no_node_watches(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        items = runtime.exec(state.id, ("sh", "-c", "echo $$; sleep 600"))
        item = await anext(items)
        assert isinstance(item, ExecOutput)
        os.kill(processes_of(state_dir, state.id)["process"], signal.SIGKILL)
        await until_ended(int(item.chunk))
        assert [item async for item in items] == [ExecExit(137)]


async def test_a_command_does_not_outlive_its_wrapper(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        items = runtime.exec(state.id, ("sh", "-c", "echo $$; sleep 600"))
        item = await anext(items)
        assert isinstance(item, ExecOutput)
        os.kill(processes_of(state_dir, state.id)["wrapper"], signal.SIGKILL)
        assert [item async for item in items] == [ExecExit(137)]
        stat = read_stat(int(item.chunk), proc_root=PROC)
        assert stat is None or stat.has_ended


@pytest.mark.parametrize("command", SLEEPERS.values(), ids=SLEEPERS)
async def test_a_command_whose_wrapper_and_node_were_killed_is_ended_by_the_next(
    state_dir: Path, spec: ContainerSpec, command: tuple[str, ...]
) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        wrapper = processes_of(state_dir, state.id)["wrapper"]
        argv = (sys.executable, "-c", PROMPT, str(state_dir), state.id, *command)
        node = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE)
        assert node.stdout is not None
        leader = int(await node.stdout.readline())
        os.kill(wrapper, signal.SIGSTOP)  # it must not see the node go
        node.kill()
        await node.wait()
        stat = read_stat(leader, proc_root=PROC)
        os.kill(wrapper, signal.SIGKILL)
        await until_ended(wrapper)
        assert stat is not None
        assert not stat.has_ended
        assert [each.state for each in await runtime.list()] == [RunState.LOST]
        assert session_members(stat.identity, proc_root=PROC) == []


async def test_commands_that_are_over_leave_no_record(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        output, _ = await run(runtime, state.id, "sh", "-c", f"ls {state_dir / state.id}; exit 0")
        assert b"guest-" in output[ExecStream.STDOUT]
        assert list((state_dir / state.id).glob("guest-*")) == []


_AT_ONCE = 100
"""The commands that a wrapper serves at a time; further ones wait."""


async def test_more_commands_than_a_wrapper_serves_at_once(state_dir: Path, spec: ContainerSpec) -> None:
    gate = state_dir.parent / "gate"
    os.mkfifo(gate)
    ours = os.open(gate, os.O_RDWR)
    running: set[int] = set()
    all_run = asyncio.Event()

    async def held(number: int) -> int:
        code = -1
        async for item in runtime.exec(state.id, ("sh", "-c", f"exec 3<{gate}; echo; read _ <&3; exit {number}")):
            if isinstance(item, ExecExit):
                code = item.exit_code
                continue
            running.add(number)
            if len(running) == _AT_ONCE:
                all_run.set()
        return code

    async def late(number: int) -> int:
        _, code = await run(runtime, state.id, "sh", "-c", f"exit {number}")
        return code

    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(held(number)) for number in range(_AT_ONCE)]
            await all_run.wait()
            tasks += [group.create_task(late(_AT_ONCE + number)) for number in range(5)]
            await asyncio.sleep(0)  # they have asked
            os.close(ours)
        assert [task.result() for task in tasks] == list(range(_AT_ONCE + 5))


@pytest.mark.parametrize("after_s", [0, 0.001, 0.002, 0.004, 0.008])
async def test_a_command_cancelled_anywhere_leaves_nothing(
    state_dir: Path, spec: ContainerSpec, after_s: float
) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(after_s):
                await run(runtime, state.id, "sleep", "600")
        # The wrapper serves on; the fixture looks for processes.
        assert (await run(runtime, state.id, "true"))[1] == 0


async def test_what_a_command_left_running_keeps_its_output_open(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        output, code = await run(runtime, state.id, "sh", "-c", "(sleep 0.2; echo late) & exit 3")
        assert (output[ExecStream.STDOUT], code) == (b"late\n", 3)


@pytest.mark.parametrize("word", ["a\0b", "\ud800"], ids=["NUL", "surrogate"])
async def test_exec_of_words_that_no_command_can_have(state_dir: Path, spec: ContainerSpec, word: str) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        with pytest.raises(ExecFailed):
            await run(runtime, state.id, "echo", word)


async def test_a_wrapper_that_cannot_run_commands_keeps_its_container(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        (state_dir / state.id / "guests.sock").unlink()  # as with an older plugbay's
        with pytest.raises(ExecFailed, match="an older plugbay started it"):
            await run(runtime, state.id, "true")
        assert await runtime.list() == [state]
