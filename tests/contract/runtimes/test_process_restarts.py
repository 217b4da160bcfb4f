"""The process runtime when its node dies, or what keeps its containers does."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plugbay.errors import InstanceNotFound, InstanceUnreadable
from plugbay.kernel.boot import read_boot_id
from plugbay.kernel.processes import read_stat
from plugbay.model.ids import PodUid
from plugbay.runtimes.port import ContainerSpec, ContainerState, ExecStream, RunState
from plugbay.runtimes.supervised.confinement import Launch
from plugbay.runtimes.supervised.directories import InstanceDirectories
from plugbay.runtimes.supervised.launch import spawn_wrapper
from plugbay.runtimes.supervised.traces import find_wrappers
from tests.container_specs import changed
from tests.contract.rigs.process import (
    DEADLINE_S,
    PROC,
    SLEEP,
    TWO_GROUPS,
    first_line,
    new_runtime,
    processes_of,
    run,
    runtime_on,
    sh,
    spec,
    start_in_killed_node,
    state_dir,
    until_ended,
    whole_log,
)

__all__ = ["spec", "state_dir"]

NODE = """
import asyncio, os, pathlib, pickle, sys
from datetime import UTC, datetime
from plugbay.runtimes.process.unconfined import process_runtime

async def main():
    spec, state_dir = pickle.load(sys.stdin.buffer)
    runtime = process_runtime(state_dir, environ=os.environ, clock=lambda: datetime.now(UTC))
    state = await runtime.start(spec)
    sys.stdout.buffer.write(pickle.dumps(state))
    sys.stdout.buffer.flush()
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def start_and_die(state_dir: Path, spec: ContainerSpec) -> ContainerState:
    """Start a container in a node that is SIGKILLed as soon as it runs."""
    return await start_in_killed_node(NODE, given=(spec, state_dir))


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
    launch = Launch(spec.argv, working_dir="/", env={})
    await asyncio.to_thread(InstanceDirectories(state_dir).create, spec, launch, created_at=datetime.now(UTC))
    async with runtime_on(state_dir) as runtime:
        assert await runtime.list() == []
        assert (await runtime.start(spec)).state is RunState.RUNNING, "the attempt is free"


async def test_a_command_never_runs_without_its_node(state_dir: Path, spec: ContainerSpec, tmp_path: Path) -> None:
    argv = ("touch", str(tmp_path / "ran"))
    touches = changed(spec, argv=argv)
    directories = InstanceDirectories(state_dir)
    env = {"PATH": os.environ["PATH"]}
    launch = Launch(argv, working_dir="/", env=env)
    container = await asyncio.to_thread(directories.create, touches, launch, created_at=datetime.now(UTC))
    report, reported = os.pipe()
    os.close(report)  # as when the node is killed
    wrapper = spawn_wrapper(directories.path(container), boot_id="boot", environ=os.environ, report=reported)
    os.close(reported)
    assert (await asyncio.to_thread(os.waitpid, wrapper, 0))[1] != 0
    assert (state_dir / container).exists()
    assert not (tmp_path / "ran").exists()
    async with runtime_on(state_dir) as runtime:
        assert await runtime.list() == []


@pytest.mark.parametrize("is_recorded", [False, True])
async def test_a_slow_wrapper_whose_node_was_killed_is_waited_for(
    state_dir: Path, spec: ContainerSpec, *, is_recorded: bool
) -> None:
    """A container that is about to be given up does not run: a pod that is never restarted would have ended so."""
    directories = InstanceDirectories(state_dir)
    launch = Launch(spec.argv, working_dir="/", env={"PATH": os.environ["PATH"]})
    container = await asyncio.to_thread(directories.create, spec, launch, created_at=datetime.now(UTC))
    directory = directories.path(container)
    content = (directory / "launch").read_bytes()
    report, reported = os.pipe()
    fill(reported)
    if not is_recorded:
        (directory / "launch").unlink()
        os.mkfifo(directory / "launch")
    wrapper = spawn_wrapper(directory, boot_id=read_boot_id(PROC), environ=os.environ, report=reported)
    os.close(reported)

    def has_come_so_far() -> bool:
        if is_recorded:
            return (directory / "process.json").exists()
        return bool(find_wrappers(state_dir, boot_id="boot", proc_root=PROC))

    async with runtime_on(state_dir) as runtime, asyncio.TaskGroup() as tasks:
        while not has_come_so_far():  # noqa: ASYNC110  # another process, of which nothing tells us
            await asyncio.sleep(0)
        listing = tasks.create_task(runtime.list())
        await asyncio.wait({listing}, timeout=2)
        assert not listing.done()
        if not is_recorded:
            await asyncio.to_thread((directory / "launch").write_bytes, content)
        while not (directory / "process.json").exists():  # noqa: ASYNC110  # as above
            await asyncio.sleep(0)
        process = json.loads((directory / "process.json").read_text())["process"]["pid"]
        os.kill(process, signal.SIGSTOP)  # it outlives the wrapper, and looks like one
        os.close(report)  # as when the node is killed
        await asyncio.to_thread(os.waitpid, wrapper, 0)
        await asyncio.wait({listing}, timeout=1)
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
        assert await listing == []
        assert os.listdir(state_dir) == []


def fill(pipe: int) -> None:
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        while os.write(pipe, b"x" * 4096):
            pass
    os.set_blocking(pipe, True)


async def test_half_made_directories_of_an_earlier_node_are_swept(state_dir: Path) -> None:
    (state_dir / ".0000-new-uid_name_0").mkdir(parents=True)
    async with runtime_on(state_dir) as runtime:
        assert await runtime.list() == []
        assert os.listdir(state_dir) == []


async def test_a_container_without_its_wrapper_is_lost_and_ended(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(changed(spec, argv=(*TWO_GROUPS, "time.sleep(600)")))
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


def damage(directory: Path, ways: Iterable[str]) -> None:
    """``NAME cut``, ``NAME spoilt``, ``NAME gone`` or ``NAME closed``.

    Spoilt texts are not UTF-8 any more. A directory in the place of a file cannot be read, as on a bad disk.
    """
    for each in ways:
        name, way = each.split()
        path = next(directory.glob(f"{name}*"))
        if way == "cut":
            path.write_text("{")
            continue
        if way == "spoilt":
            path.write_bytes(path.read_bytes().replace(b'd":"', b'd":"\xff', 1))  # of pod_uid, or of boot_id
            continue
        path.unlink()
        if way == "closed":
            path.mkdir()


@pytest.mark.parametrize(
    "ways",
    [
        pytest.param(ways, id=" and ".join(ways))
        for ways in (
            ("spec.json cut",),
            ("spec.json spoilt",),
            ("spec.json gone",),
            ("process.json cut",),
            ("process.json spoilt",),
            ("process.json gone",),
            ("process.json closed",),
            ("process.json cut", "ran_ gone"),
            ("process.json gone", "ran_ gone"),
            ("process.json gone", "ran_ gone", "spec.json gone"),
        )
    ],
)
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_container_with_a_damaged_record_is_found_and_ended(
    state_dir: Path, spec: ContainerSpec, ways: tuple[str, ...], *, is_restarted: bool
) -> None:
    async with runtime_on(state_dir) as runtime:
        started = await runtime.start(changed(spec, uid=PodUid("6f_1c"), attempt=3))
        assert started.pid is not None
        damage(state_dir / started.id, ways)
        if is_restarted:
            runtime = new_runtime(state_dir)
            (found,) = await runtime.list()
            assert (found.id, found.state, found.pid) == (started.id, RunState.RUNNING, started.pid)
            assert (found.pod_uid, found.name, found.attempt) == ("6f_1c", "gopher", 3)
        ended = await runtime.stop(started.id, grace_s=DEADLINE_S)
        assert (ended.state, ended.exit_code) == (RunState.EXITED, 143)
        stat = read_stat(started.pid, proc_root=PROC)
        assert stat is None or stat.has_ended


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_container_without_its_directory_is_found_and_ended(
    state_dir: Path, spec: ContainerSpec, *, is_restarted: bool
) -> None:
    async with runtime_on(state_dir) as runtime:
        started = await runtime.start(spec)
        assert started.pid is not None
        shutil.rmtree(state_dir / started.id)
        if is_restarted:
            runtime = new_runtime(state_dir)
            assert [each.state for each in await runtime.list()] == [RunState.RUNNING]
        with suppress(InstanceNotFound):
            await runtime.stop(started.id, grace_s=DEADLINE_S)
        stat = read_stat(started.pid, proc_root=PROC)
        assert stat is None or stat.has_ended


async def test_what_cannot_be_read_may_run(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        started = await runtime.start(sh(spec, "echo hello; exec sleep 600"))
        assert await first_line(runtime, started.id) == "hello"
        record = state_dir / started.id / "spec.json"
        content = record.read_bytes()
        damage(state_dir / started.id, ["spec.json closed"])
        (found,) = await runtime.list()
        assert (found.id, found.pod_uid, found.state) == (started.id, started.pod_uid, RunState.UNKNOWN)
        for doing in (runtime.wait(started.id), runtime.stop(started.id, grace_s=0), runtime.remove(started.id)):
            with pytest.raises(InstanceUnreadable, match="Is a directory"):
                await doing
        assert await whole_log(runtime, started.id) == b"hello\n"
        record.rmdir()
        record.write_bytes(content)
        assert await runtime.list() == [started]


async def test_an_end_whose_record_is_damaged_is_an_end(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        started = await runtime.start(sh(spec, "exit 0"))
        await runtime.wait(started.id)
        damage(state_dir / started.id, ["exit.json cut"])
        assert [each.state for each in await runtime.list()] == [RunState.LOST]


async def test_a_damaged_record_is_reported_once(
    state_dir: Path, spec: ContainerSpec, caplog: pytest.LogCaptureFixture
) -> None:
    async with runtime_on(state_dir) as runtime:
        started = await runtime.start(spec)
        damage(state_dir / started.id, ["spec.json cut"])
        await runtime.list()
        await runtime.list()
        assert caplog.text.count(f"{state_dir / started.id / 'spec.json'} is damaged") == 1
