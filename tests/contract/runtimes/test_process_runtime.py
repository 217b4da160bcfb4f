"""The process runtime with real processes: how containers start, write and end."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError, InstanceNotFound
from plugbay.kernel.processes import read_stat
from plugbay.model.edits import ContainerEdits, Mount
from plugbay.model.ids import PodUid
from plugbay.runtimes.port import ContainerId, ContainerRuntime, ContainerSpec, RunState
from tests.container_specs import changed
from tests.contract.rigs.process import (
    DEADLINE_S,
    PROC,
    TWO_GROUPS,
    first_line,
    processes_of,
    runtime_on,
    sh,
    spec,
    state_dir,
    until_ended,
    whole_log,
)

__all__ = ["spec", "state_dir"]


async def test_a_container_runs_in_a_session_of_its_own(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        port: ContainerRuntime = runtime
        state = await port.start(spec)
        assert state.state is RunState.RUNNING
        assert (state.pod_uid, state.name, state.attempt) == ("6f1c", "gopher", 0)
        assert state.pid is not None
        stat = read_stat(state.pid, proc_root=PROC)
        assert stat is not None
        assert stat.session == stat.group == state.pid
        assert await port.list() == [state]


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ("exit 0", 0, "Completed"),
        ("exit 3", 3, "Error"),
        ("exit 127", 127, "Error"),
        ("kill -KILL $$", 137, "Error"),
        ("kill -PIPE $$", 141, "Error"),
        ("kill -INT $$", 130, "Error"),
    ],
)
async def test_the_end_is_recorded(state_dir: Path, spec: ContainerSpec, script: str, code: int, reason: str) -> None:
    async with runtime_on(state_dir) as runtime:
        started = await runtime.start(sh(spec, script))
        ended = await runtime.wait(started.id)
        assert (ended.state, ended.exit_code, ended.reason) == (RunState.EXITED, code, reason)
        assert ended.finished_at is not None
        assert ended.finished_at >= ended.started_at == started.started_at
        assert await runtime.list() == [ended]


@pytest.mark.parametrize(
    ("argv", "working_dir", "message"),
    [
        (("no-such-program",), None, 'exec: "no-such-program": executable file not found in $PATH'),
        (("/no/such/program",), None, 'exec: "/no/such/program": no such file or directory'),
        (("/etc/passwd",), None, 'exec: "/etc/passwd": permission denied'),
        (("/etc",), None, 'exec: "/etc": permission denied'),
        (("true",), "/no/such/directory", 'chdir to cwd ("/no/such/directory") failed: no such file or directory'),
    ],
)
async def test_a_command_that_cannot_run_fails_the_start(
    state_dir: Path, spec: ContainerSpec, argv: tuple[str, ...], working_dir: str | None, message: str
) -> None:
    async with runtime_on(state_dir) as runtime:
        with pytest.raises(ContainerStartError) as raised:
            await runtime.start(changed(spec, argv=argv, working_dir=working_dir))
        assert (raised.value.reason, raised.value.message) == ("StartError", message)
        assert os.listdir(state_dir) == []


async def test_a_missing_mount_fails_the_start(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        with pytest.raises(ContainerStartError, match="lstat /no/such/mount") as raised:
            await runtime.start(changed(spec, mounts=(Mount("/no/such/mount", container_path="/mnt"),)))
        assert raised.value.reason == "CreateContainerError"
        assert await runtime.list() == []


async def test_a_wrapper_that_fails_tells_why(
    state_dir: Path, spec: ContainerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with runtime_on(state_dir) as runtime:
        monkeypatch.setattr(sys, "executable", "/bin/false")
        with pytest.raises(ContainerStartError, match="wrapper failed: killed") as raised:
            await runtime.start(spec)
        monkeypatch.setattr(sys, "executable", "/no/such/python")
        with pytest.raises(ContainerStartError, match="cannot start a process"):
            await runtime.start(spec)
        assert raised.value.reason == "RunContainerError"
        assert os.listdir(state_dir) == []


async def test_an_attempt_is_started_once(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        first = await runtime.start(spec)
        with pytest.raises(ContainerStartError, match=f"name {first.id} is reserved"):
            await runtime.start(spec)
        second = await runtime.start(changed(spec, attempt=1))
        assert await runtime.list() == [first, second]


async def test_odd_pod_uids_stay_inside_the_state_directory(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(changed(spec, uid=PodUid("../ü_/")))
        assert state.pod_uid == "../ü_/"
        assert os.listdir(state_dir) == [state.id]


async def test_the_environment_is_the_containers_alone(
    state_dir: Path, spec: ContainerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_NODE", "1")
    edits = ContainerEdits(env={"Gopher": "g1,g2", "BOTH": "device"})
    env = {**spec.env, "BOTH": "pod", "ODD": "line\nü='\""}
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(changed(spec, argv=("env", "-0"), env=env, edits=edits))
        await runtime.wait(state.id)
        text = (await whole_log(runtime, state.id)).decode()
        seen = dict(item.split("=", 1) for item in text.split("\0")[:-1])
        assert seen.pop("PATH").startswith("/usr/local/sbin:")
        assert seen.pop("HOME") == os.environ.get("HOME", "/")
        assert seen.pop("PLUGBAY_CONTAINER") == str(state_dir / state.id)
        assert seen == {**env, "HOSTNAME": "gopher-pod", "Gopher": "g1,g2"}


async def test_only_the_standard_streams_are_open(state_dir: Path, spec: ContainerSpec) -> None:
    leaked, other = os.pipe()
    os.set_inheritable(leaked, True)
    try:
        async with runtime_on(state_dir) as runtime:
            script = "cat; pwd; for fd in /proc/$$/fd/*; do readlink $fd; done"
            state = await runtime.start(changed(sh(spec, script), working_dir="/usr"))
            await runtime.wait(state.id)
            directory, *streams = (await whole_log(runtime, state.id)).decode().split()
            assert (directory, [each.split(":")[0] for each in streams]) == ("/usr", ["/dev/null", "pipe", "pipe"])
    finally:
        os.close(leaked)
        os.close(other)


async def test_many_starts_at_once(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        specs = [changed(spec, uid=PodUid(f"uid-{number}")) for number in range(50)]
        states = await asyncio.gather(*map(runtime.start, specs))
        assert len({state.pid for state in states}) == 50
        assert {state.id for state in await runtime.list()} == {state.id for state in states}
        assert {state.state for state in await runtime.list()} == {RunState.RUNNING}


# --- stop and remove -----------------------------------------------------------------------------------------------


async def test_stop_sends_sigterm_to_the_group(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(sh(spec, "trap 'exit 7' TERM; echo ready; sleep 600 & wait; wait"))
        await first_line(runtime, state.id)
        ended = await runtime.stop(state.id, grace_s=DEADLINE_S)
        assert (ended.state, ended.exit_code) == (RunState.EXITED, 7)
        assert await runtime.stop(state.id, grace_s=DEADLINE_S) == ended


@pytest.mark.parametrize("grace_s", [0, 0.05])
async def test_stop_kills_who_ignores_sigterm(state_dir: Path, spec: ContainerSpec, grace_s: float) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(sh(spec, "trap '' TERM; echo ready; sleep 600"))
        await first_line(runtime, state.id)
        ended = await runtime.stop(state.id, grace_s=grace_s)
        assert (ended.state, ended.exit_code) == (RunState.EXITED, 137)


async def test_nothing_of_the_session_survives_its_leader(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(changed(spec, argv=(*TWO_GROUPS, "sys.exit(5)")))
        assert (await runtime.wait(state.id)).exit_code == 5
        await until_ended(int(await whole_log(runtime, state.id)))


async def test_sigterm_does_not_end_a_second_group_but_the_end_does(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(changed(spec, argv=(*TWO_GROUPS, "time.sleep(600)")))
        background = int(await first_line(runtime, state.id))
        assert (await runtime.stop(state.id, grace_s=DEADLINE_S)).exit_code == 143
        await until_ended(background)


async def test_an_ended_container_leaves_no_zombie(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(sh(spec, "exit 0"))
        wrapper = processes_of(state_dir, state.id)["wrapper"]
        await runtime.wait(state.id)
        assert read_stat(wrapper, proc_root=PROC) is None


async def test_remove_forgets_and_kills(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        await runtime.remove(state.id)
        await runtime.remove(state.id)
        assert os.listdir(state_dir) == []
        with pytest.raises(InstanceNotFound):
            await runtime.wait(state.id)


@pytest.mark.parametrize("unknown", ["", ".", "..", "../containers", "uid_name_0"])
async def test_unknown_ids_are_refused(state_dir: Path, unknown: str) -> None:
    async with runtime_on(state_dir) as runtime:
        with pytest.raises(InstanceNotFound):
            await runtime.stop(ContainerId(unknown), grace_s=0)
        await runtime.remove(ContainerId(unknown))


async def test_cancelling_wait_does_no_harm(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await runtime.wait(state.id)
        assert await runtime.list() == [state]


# --- logs ----------------------------------------------------------------------------------------------------------


async def test_the_log_holds_both_streams_in_order(state_dir: Path, spec: ContainerSpec, tmp_path: Path) -> None:
    """What is written to both at the same moment may change places, as with containerd."""
    os.mkfifo(tmp_path / "fifo")
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(sh(spec, f"echo 1; echo 2 >&2; read line < {tmp_path}/fifo; echo 3; printf 4"))
        seen = b""
        async with aclosing(runtime.log(state.id, follow=True)) as chunks:
            async for chunk in chunks:
                seen += chunk
                if len(seen) == len(b"1\n2\n"):
                    await asyncio.to_thread((tmp_path / "fifo").write_text, "go\n")
        await runtime.wait(state.id)
        assert seen in (b"1\n2\n3\n4", b"2\n1\n3\n4")
        assert await whole_log(runtime, state.id) == seen
        assert await whole_log(runtime, state.id, tail=2) == b"3\n4"
        assert b"".join([chunk async for chunk in runtime.log(state.id, follow=True, tail=1)]) == b"4"


async def test_following_sees_each_write_and_ends_with_the_container(
    state_dir: Path, spec: ContainerSpec, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(sh(spec, f"echo first; read line < {tmp_path}/fifo; echo $line; exec echo last"))
        seen = b""
        async with aclosing(runtime.log(state.id, follow=True)) as chunks:
            async for chunk in chunks:
                seen += chunk
                if seen == b"first\n":
                    await asyncio.to_thread((tmp_path / "fifo").write_text, "second\n")
        assert seen == b"first\nsecond\nlast\n"
        assert (await runtime.wait(state.id)).exit_code == 0
