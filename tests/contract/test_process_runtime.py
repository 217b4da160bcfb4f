"""The process runtime with real processes; none may be left when a test ends."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError, ExecFailed, InstanceNotFound
from plugbay.kernel.processes import read_stat, session_members, wait_end
from plugbay.model.edits import NO_EDITS, ContainerEdits, Mount
from plugbay.model.ids import ContainerName, PodUid
from plugbay.node.runtimes.port import (
    ContainerId,
    ContainerRuntime,
    ContainerSpec,
    ContainerState,
    ExecExit,
    ExecOutput,
    ExecStream,
    RunState,
)
from plugbay.node.runtimes.process.confinement import Launch
from plugbay.node.runtimes.process.directories import InstanceDirectories
from plugbay.node.runtimes.process.launch import spawn_wrapper
from plugbay.node.runtimes.process.records import SpecRecord
from plugbay.node.runtimes.process.runtime import ProcessRuntime

DEADLINE_S = 30
PROC = Path("/proc")
SLEEP = ("sleep", "600")
TWO_GROUPS = (
    *(sys.executable, "-I", "-S", "-c"),
    "import os, sys, time; "
    "print(os.posix_spawnp('sleep', ['sleep', '600'], os.environ, setpgroup=0), flush=True); "
    "exec(sys.argv[1])",
)
"""Starts a process in a group of its own, prints its pid, and runs one more statement."""


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "containers"
    left = [pid for pid in _pids() if _belongs(pid, tmp_path) and not _ends_soon(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == [], "processes were left behind"


@pytest.fixture
def spec(state_dir: Path) -> ContainerSpec:
    return ContainerSpec(
        pod_uid=PodUid("6f1c"),
        namespace="default",
        pod="gopher-pod",
        name=ContainerName("gopher"),
        attempt=0,
        image="busybox",
        argv=SLEEP,
        working_dir=None,
        env={"BELONGS_TO": str(state_dir.parent)},
        mounts=(),
        edits=NO_EDITS,
    )


def new_runtime(state_dir: Path) -> ProcessRuntime:
    return ProcessRuntime(state_dir, environ=os.environ, clock=lambda: datetime.now(UTC))


@asynccontextmanager
async def runtime_on(state_dir: Path) -> AsyncIterator[ProcessRuntime]:
    runtime = new_runtime(state_dir)
    async with asyncio.timeout(DEADLINE_S):
        try:
            yield runtime
        finally:
            for state in await runtime.list():
                await runtime.remove(state.id)


def sh(spec: ContainerSpec, script: str) -> ContainerSpec:
    return replace(spec, argv=("sh", "-c", script))


async def whole_log(runtime: ProcessRuntime, container: ContainerId, *, tail: int | None = None) -> bytes:
    return b"".join([chunk async for chunk in runtime.log(container, tail=tail)])


async def first_line(runtime: ProcessRuntime, container: ContainerId) -> str:
    seen = b""
    async with aclosing(runtime.log(container, follow=True)) as chunks:
        async for chunk in chunks:
            seen += chunk
            if b"\n" in seen:
                return seen.split(b"\n")[0].decode()
    raise AssertionError(f"the container ended after writing {seen!r}")


async def until_ended(pid: int) -> None:
    stat = read_stat(pid, proc_root=PROC)
    if stat is not None:
        await wait_end(stat.identity, proc_root=PROC)


def processes_of(state_dir: Path, container: ContainerId) -> dict[str, int]:
    record = json.loads((state_dir / container / "process.json").read_bytes())
    return {role: record[role]["pid"] for role in ("wrapper", "process")}


# --- start and end -------------------------------------------------------------------------------------------------


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
            await runtime.start(replace(spec, argv=argv, working_dir=working_dir))
        assert (raised.value.reason, raised.value.message) == ("StartError", message)
        assert os.listdir(state_dir) == []


async def test_a_missing_mount_fails_the_start(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        with pytest.raises(ContainerStartError, match="lstat /no/such/mount") as raised:
            await runtime.start(replace(spec, mounts=(Mount("/mnt", "/no/such/mount"),)))
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
        second = await runtime.start(replace(spec, attempt=1))
        assert await runtime.list() == [first, second]


async def test_odd_pod_uids_stay_inside_the_state_directory(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(replace(spec, pod_uid=PodUid("../ü_/")))
        assert state.pod_uid == "../ü_/"
        assert os.listdir(state_dir) == [state.id]


async def test_the_environment_is_the_containers_alone(
    state_dir: Path, spec: ContainerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_NODE", "1")
    edits = ContainerEdits(env={"Gopher": "g1,g2", "BOTH": "device"})
    env = {**spec.env, "BOTH": "pod", "ODD": "line\nü='\""}
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(replace(spec, argv=("env", "-0"), env=env, edits=edits))
        await runtime.wait(state.id)
        text = (await whole_log(runtime, state.id)).decode()
        seen = dict(item.split("=", 1) for item in text.split("\0")[:-1])
        assert seen.pop("PATH").startswith("/usr/local/sbin:")
        assert seen.pop("HOME") == os.environ.get("HOME", "/")
        assert seen == {**env, "HOSTNAME": "gopher-pod", "Gopher": "g1,g2"}


async def test_only_the_standard_streams_are_open(state_dir: Path, spec: ContainerSpec) -> None:
    leaked, other = os.pipe()
    os.set_inheritable(leaked, True)
    try:
        async with runtime_on(state_dir) as runtime:
            script = "cat; pwd; for fd in /proc/$$/fd/*; do readlink $fd; done"
            state = await runtime.start(replace(sh(spec, script), working_dir="/usr"))
            await runtime.wait(state.id)
            log = str(state_dir / state.id / "log")
            assert (await whole_log(runtime, state.id)).decode().split() == ["/usr", "/dev/null", log, log]
    finally:
        os.close(leaked)
        os.close(other)


async def test_many_starts_at_once(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        specs = [replace(spec, pod_uid=PodUid(f"uid-{number}")) for number in range(50)]
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
        state = await runtime.start(replace(spec, argv=(*TWO_GROUPS, "sys.exit(5)")))
        assert (await runtime.wait(state.id)).exit_code == 5
        await until_ended(int(await whole_log(runtime, state.id)))


async def test_sigterm_does_not_end_a_second_group_but_the_end_does(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(replace(spec, argv=(*TWO_GROUPS, "time.sleep(600)")))
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


async def test_the_log_holds_both_streams_in_order(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(sh(spec, "echo 1; echo 2 >&2; echo 3; printf 4"))
        await runtime.wait(state.id)
        assert await whole_log(runtime, state.id) == b"1\n2\n3\n4"
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


# --- exec ----------------------------------------------------------------------------------------------------------


async def run(runtime: ProcessRuntime, container: ContainerId, *argv: str) -> tuple[dict[ExecStream, bytes], int]:
    output = dict.fromkeys(ExecStream, b"")
    async for item in runtime.exec(container, argv):
        if isinstance(item, ExecExit):
            return output, item.exit_code
        output[item.stream] += item.chunk
    raise AssertionError("exec ended without an exit code")


async def test_exec_has_the_containers_environment_and_directory(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        edits = ContainerEdits(env={"Gopher": "g1"})
        state = await runtime.start(replace(spec, working_dir="/usr", edits=edits))
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
from plugbay.node.runtimes.process.runtime import ProcessRuntime

async def main():
    state_dir, container, *argv = sys.argv[1:]
    runtime = ProcessRuntime(pathlib.Path(state_dir), environ=os.environ, clock=lambda: datetime.now(UTC))
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


_MANY = 125
"""More than are served, and fewer than may wait when the wrapper comes to none of them."""


async def test_more_commands_than_a_wrapper_serves_at_once(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(spec)
        runs = [run(runtime, state.id, "sh", "-c", f"exit {number}") for number in range(_MANY)]
        assert [code for _, code in await asyncio.gather(*runs)] == list(range(_MANY))


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


# --- the node dies, and others do ----------------------------------------------------------------------------------

NODE = """
import asyncio, os, pathlib, pickle, sys
from datetime import UTC, datetime
from plugbay.node.runtimes.process.runtime import ProcessRuntime

async def main():
    spec, state_dir = pickle.load(sys.stdin.buffer)
    runtime = ProcessRuntime(state_dir, environ=os.environ, clock=lambda: datetime.now(UTC))
    state = await runtime.start(spec)
    sys.stdout.buffer.write(pickle.dumps(state))
    sys.stdout.buffer.flush()
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def start_and_die(state_dir: Path, spec: ContainerSpec) -> ContainerState:
    """Start a container in a node that is SIGKILLed as soon as it runs."""
    import pickle

    node = await asyncio.create_subprocess_exec(
        sys.executable, "-c", NODE, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert node.stdin is not None
    assert node.stdout is not None
    try:
        node.stdin.write(pickle.dumps((spec, state_dir)))
        node.stdin.close()
        pickled = b""
        while not pickled.endswith(b"."):
            pickled += await node.stdout.read(100_000) or pytest.fail("the node did not start the container")
    finally:
        node.kill()
        await node.wait()
    state = pickle.loads(pickled)
    assert isinstance(state, ContainerState)
    return state


async def test_a_new_node_adopts_what_runs(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await start_and_die(state_dir, sh(spec, "trap 'echo bye; exit 4' TERM; echo hello; sleep 600 & wait"))
        assert await runtime.list() == [state]
        assert await first_line(runtime, state.id) == "hello"
        output, _ = await run(runtime, state.id, "printenv", "HOSTNAME")
        assert output[ExecStream.STDOUT] == b"gopher-pod\n"
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(runtime.wait(state.id))
            await runtime.stop(state.id, grace_s=DEADLINE_S)
        assert (waiting.result().state, waiting.result().exit_code) == (RunState.EXITED, 4)
        assert await whole_log(runtime, state.id) == b"hello\nbye\n"


async def test_an_end_while_no_node_runs_is_known_later(state_dir: Path, spec: ContainerSpec, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    async with runtime_on(state_dir) as runtime:
        state = await start_and_die(state_dir, sh(spec, f"read line < {tmp_path}/fifo; exit $line"))
        wrapper = processes_of(state_dir, state.id)["wrapper"]
        await asyncio.to_thread((tmp_path / "fifo").write_text, "6\n")
        await until_ended(wrapper)
        (ended,) = await runtime.list()
        assert (ended.id, ended.state, ended.exit_code) == (state.id, RunState.EXITED, 6)


async def test_what_a_node_could_not_start_before_it_died_was_never_made(state_dir: Path, spec: ContainerSpec) -> None:
    record = SpecRecord(spec, env={}, working_dir="/", created_at=datetime.now(UTC))
    launch = Launch(spec.argv, working_dir="/", env={})
    await asyncio.to_thread(InstanceDirectories(state_dir).create, record, launch)
    async with runtime_on(state_dir) as runtime:
        assert await runtime.list() == []
        assert (await runtime.start(spec)).state is RunState.RUNNING, "the attempt is free"


async def test_a_command_never_runs_without_its_node(state_dir: Path, spec: ContainerSpec, tmp_path: Path) -> None:
    argv = ("touch", str(tmp_path / "ran"))
    record = SpecRecord(replace(spec, argv=argv), env={}, working_dir="/", created_at=datetime.now(UTC))
    directories = InstanceDirectories(state_dir)
    env = {"PATH": os.environ["PATH"]}
    launch = Launch(argv, working_dir="/", env=env)
    container = await asyncio.to_thread(directories.create, record, launch)
    report, reported = os.pipe()
    os.close(report)  # as when the node is killed
    wrapper = spawn_wrapper(directories.path(container), boot_id="boot", environ=os.environ, report=reported)
    os.close(reported)
    assert (await asyncio.to_thread(os.waitpid, wrapper, 0))[1] != 0
    assert (state_dir / container).exists()
    assert not (tmp_path / "ran").exists()
    async with runtime_on(state_dir) as runtime:
        assert await runtime.list() == []


async def test_half_made_directories_of_an_earlier_node_are_swept(state_dir: Path) -> None:
    (state_dir / ".0000-new-uid_name_0").mkdir(parents=True)
    async with runtime_on(state_dir) as runtime:
        assert await runtime.list() == []
        assert os.listdir(state_dir) == []


async def test_a_container_without_its_wrapper_is_lost_and_ended(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(replace(spec, argv=(*TWO_GROUPS, "time.sleep(600)")))
        background = int(await first_line(runtime, state.id))
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(runtime.wait(state.id))
            os.kill(processes_of(state_dir, state.id)["wrapper"], signal.SIGKILL)
        assert (waiting.result().state, waiting.result().exit_code) == (RunState.LOST, None)
        for pid in (background, state.pid):
            assert pid is not None
            stat = read_stat(pid, proc_root=PROC)
            assert stat is None or stat.has_ended
        assert await runtime.stop(state.id, grace_s=1) == waiting.result()


@pytest.mark.parametrize("way", ["list", "stop"])
async def test_a_wrapper_killed_unseen_is_noticed_later(state_dir: Path, spec: ContainerSpec, way: str) -> None:
    async with runtime_on(state_dir) as runtime:
        started = await start_and_die(state_dir, spec)
        pids = processes_of(state_dir, started.id)
        os.kill(pids["wrapper"], signal.SIGKILL)
        await until_ended(pids["wrapper"])
        state = (await runtime.list())[0] if way == "list" else await runtime.stop(started.id, grace_s=1)
        assert state.state is RunState.LOST
        stat = read_stat(pids["process"], proc_root=PROC)
        assert stat is None or stat.has_ended


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP, start_new_session=True) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("difference", ["start time", "boot"])
async def test_a_process_that_only_has_the_same_pid_is_let_be(
    state_dir: Path, spec: ContainerSpec, bystander: subprocess.Popen[bytes], difference: str
) -> None:
    stat = read_stat(bystander.pid, proc_root=PROC)
    assert stat is not None
    forged = {"pid": bystander.pid, "start_ticks": stat.identity.start_ticks - (difference == "start time")}
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(sh(spec, "exit 0"))
        await runtime.wait(state.id)
        (state_dir / state.id / "exit.json").unlink()
        record = json.loads((state_dir / state.id / "process.json").read_bytes())
        record |= {"process": forged, "wrapper": forged} | ({"boot_id": "another"} if difference == "boot" else {})
        (state_dir / state.id / "process.json").write_text(json.dumps(record))
        assert [state.state for state in await runtime.list()] == [RunState.LOST]
        assert (await runtime.stop(state.id, grace_s=1)).state is RunState.LOST
        await runtime.remove(state.id)
    assert bystander.poll() is None


@pytest.mark.parametrize("after_s", [0, 0.004, 0.008, 0.012, 0.016, 0.020, 0.024, 0.028])
async def test_a_start_cancelled_anywhere_leaves_nothing_unknown(
    state_dir: Path, spec: ContainerSpec, after_s: float
) -> None:
    async with runtime_on(state_dir) as runtime:
        try:
            async with asyncio.timeout(after_s):
                await runtime.start(spec)
        except TimeoutError:
            pass
        # What the runtime lists is removed now, and the fixture looks for processes it did not list.


async def test_an_unreadable_record_is_reported_and_skipped(
    state_dir: Path, spec: ContainerSpec, caplog: pytest.LogCaptureFixture
) -> None:
    async with runtime_on(state_dir) as runtime:
        broken = await runtime.start(sh(spec, "exit 0"))
        await runtime.wait(broken.id)
        good = await runtime.start(replace(spec, attempt=1))
        (state_dir / broken.id / "spec.json").write_text("{")
        assert await runtime.list() == [good]
        assert f"Cannot read {state_dir / broken.id / 'spec.json'}" in caplog.text


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir(PROC) if entry.isdigit() and int(entry) != os.getpid()]


def _belongs(pid: int, directory: Path) -> bool:
    """A wrapper has the directory in its command line, a container in its environment."""
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes() + (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return os.fsencode(directory) in words


def _ends_soon(pid: int) -> bool:
    """Whether a process that has been killed is gone within the deadline."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(DEADLINE_S * 1000))
    finally:
        os.close(pidfd)
