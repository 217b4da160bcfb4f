"""What a container does to get away from its end: it leaves its session, or stops its wrapper."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from plugbay.kernel.processes import read_stat
from plugbay.runtimes.port import ContainerSpec, ExecStream, RunState
from plugbay.runtimes.supervised import wrapper_words
from tests.contract.rigs.process import (
    DEADLINE_S,
    PROC,
    first_line,
    new_runtime,
    processes_of,
    run,
    runtime_on,
    sh,
    spec,
    state_dir,
    until_ended,
    whole_log,
)

__all__ = ["spec", "state_dir"]

DAEMON = "echo $(setsid sh -c 'echo $$; exec sleep 600 </dev/null >/dev/null 2>&1' &)"
"""Leaves session, group and parent, and prints its pid: the shell waits for its output, so for its new session too."""


def has_ended(pid: int) -> bool:
    stat = read_stat(pid, proc_root=PROC)
    return stat is None or stat.has_ended


@pytest.mark.parametrize("end", ["by itself", "by stop", "without its wrapper", "without its node and its wrapper"])
async def test_what_leaves_its_session_ends_with_the_container(state_dir: Path, spec: ContainerSpec, end: str) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(sh(spec, DAEMON if end == "by itself" else f"{DAEMON}; sleep 600"))
        if end == "by itself":
            await runtime.wait(state.id)
            assert has_ended(int(await whole_log(runtime, state.id)))
            return
        daemon = int(await first_line(runtime, state.id))
        if end == "by stop":
            await runtime.stop(state.id, grace_s=DEADLINE_S)
        else:
            wrapper = processes_of(state_dir, state.id)["wrapper"]
            os.kill(wrapper, signal.SIGKILL)
            await until_ended(wrapper)
            later = new_runtime(state_dir) if "node" in end else runtime
            assert [each.state for each in await later.list()] == [RunState.LOST]
        assert has_ended(daemon)


async def test_what_a_command_beside_the_container_leaves_ends_with_the_container(
    state_dir: Path, spec: ContainerSpec
) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        output, _ = await run(runtime, state.id, "sh", "-c", DAEMON)
        daemon = int(output[ExecStream.STDOUT])
        assert not has_ended(daemon), "it runs beside the container, as in any other container"
        await runtime.stop(state.id, grace_s=DEADLINE_S)
        assert has_ended(daemon)


async def test_orphans_that_end_leave_no_zombie(state_dir: Path, spec: ContainerSpec) -> None:
    script = "echo $( (true & echo $!) ) $( (true & echo $!) ); exec sleep 600"
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(sh(spec, script))
        orphans = [int(word) for word in (await first_line(runtime, state.id)).split()]
        for pid in orphans:
            await until_ended(pid)
        await run(runtime, state.id, "true")  # by then the wrapper has had its turn
        assert [read_stat(pid, proc_root=PROC) for pid in orphans] == [None, None]


async def until_stopped(wrapper: int) -> None:
    await asyncio.to_thread(os.waitid, os.P_PID, wrapper, os.WSTOPPED | os.WNOWAIT)


@pytest.mark.parametrize("grace_s", [0, 0.05])
async def test_a_container_that_stops_its_wrapper_can_be_stopped(
    state_dir: Path, spec: ContainerSpec, tmp_path: Path, grace_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrapper_words, "_CONTINUED_S", 0.2)
    os.mkfifo(tmp_path / "fifo")
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(sh(spec, f"read line < {tmp_path}/fifo; kill -STOP $PPID; trap '' TERM; sleep 600"))
        await asyncio.to_thread((tmp_path / "fifo").write_text, "\n")
        await until_stopped(processes_of(state_dir, state.id)["wrapper"])
        ended = await runtime.stop(state.id, grace_s=grace_s)
        assert (ended.state, ended.exit_code) in [(RunState.EXITED, 137), (RunState.EXITED, 143)]


async def test_a_container_that_stops_its_wrapper_ends_by_itself(
    state_dir: Path, spec: ContainerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrapper_words, "_CONTINUED_S", 0.2)
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(sh(spec, "kill -STOP $PPID; exit 3"))
        assert (await runtime.wait(state.id)).exit_code == 3


async def test_a_wrapper_that_is_stopped_again_and_again_is_killed(
    state_dir: Path, spec: ContainerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrapper_words, "_CONTINUED_S", 0.2)
    may_stop = state_dir.parent / "may-stop"  # the wrapper has to have logged the line before
    stops = f"until [ -e {may_stop} ]; do sleep 0.01; done; while kill -STOP $W; do :; done"
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(sh(spec, f"export W=$PPID; setsid sh -c '{stops}' & echo $!; sleep 600"))
        stopper = int(await first_line(runtime, state.id))
        may_stop.touch()
        await until_stopped(processes_of(state_dir, state.id)["wrapper"])
        assert (await runtime.stop(state.id, grace_s=0)).state in (RunState.LOST, RunState.EXITED)
        assert has_ended(stopper)
