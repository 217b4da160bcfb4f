"""What tests of the process runtime share: real processes, of which none may be left when a test ends."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plugbay.kernel.processes import read_stat, wait_end
from plugbay.model.ids import ContainerName, PodUid
from plugbay.runtimes.port import ContainerId, ContainerSpec, ContainerState, ExecExit, ExecStream
from plugbay.runtimes.process.unconfined import process_runtime
from plugbay.runtimes.supervised.runtime import SupervisedRuntime
from tests.container_specs import changed, container_spec
from tests.leftovers import still_running

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
    left = still_running([pid for pid in _pids() if _belongs(pid, tmp_path)], within_s=DEADLINE_S)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == set(), "processes were left behind"


@pytest.fixture
def spec(state_dir: Path) -> ContainerSpec:
    return container_spec(
        *SLEEP,
        uid=PodUid("6f1c"),
        pod="gopher-pod",
        name=ContainerName("gopher"),
        image="busybox",
        env={"BELONGS_TO": str(state_dir.parent)},
    )


def clock() -> datetime:
    return datetime.now(UTC)


def new_runtime(state_dir: Path) -> SupervisedRuntime:
    return process_runtime(state_dir, environ=os.environ, clock=clock)


@asynccontextmanager
async def runtime_on(state_dir: Path, runtime: SupervisedRuntime | None = None) -> AsyncIterator[SupervisedRuntime]:
    """A runtime whose instances are removed at the end, for which there is as much time again."""
    runtime = runtime or new_runtime(state_dir)
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield runtime
    finally:
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as removing:
            for state in await runtime.list():
                removing.create_task(runtime.remove(state.id))


def sh(spec: ContainerSpec, script: str) -> ContainerSpec:
    return changed(spec, argv=("sh", "-c", script))


async def whole_log(runtime: SupervisedRuntime, container: ContainerId, *, tail: int | None = None) -> bytes:
    return b"".join([chunk async for chunk in runtime.log(container, tail=tail)])


async def first_line(runtime: SupervisedRuntime, container: ContainerId) -> str:
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


async def run(runtime: SupervisedRuntime, container: ContainerId, *argv: str) -> tuple[dict[ExecStream, bytes], int]:
    output = dict.fromkeys(ExecStream, b"")
    async for item in runtime.exec(container, argv):
        if isinstance(item, ExecExit):
            return output, item.exit_code
        output[item.stream] += item.chunk
    raise AssertionError("exec ended without an exit code")


async def start_in_killed_node(script: str, *argv: str, given: tuple[ContainerSpec, Path]) -> ContainerState:
    """Start a container in a node that is SIGKILLed as soon as it runs.

    The script reads ``given`` from its standard input and writes the container's state, both pickled.
    """
    pipe = asyncio.subprocess.PIPE
    node = await asyncio.create_subprocess_exec(sys.executable, "-c", script, *argv, stdin=pipe, stdout=pipe)
    assert node.stdin is not None
    assert node.stdout is not None
    try:
        node.stdin.write(pickle.dumps(given))
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


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir(PROC) if entry.isdigit() and int(entry) != os.getpid()]


def _belongs(pid: int, directory: Path) -> bool:
    """A wrapper has the directory in its command line, a container in its environment."""
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes() + (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return os.fsencode(directory) in words
