"""Functions in processes of their own: what they give, and every way they can end."""

from __future__ import annotations

import asyncio
import copy
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import CannotIsolate
from plugbay.ops import worker_main, worker_process
from plugbay.ops.spawned_worker import spawn_worker
from plugbay.ops.worker_process import WorkerProcess
from plugbay.ops.workers import Died, Raised, Returned, TimedOut, Worker
from plugbay.sdk.process.targets import load_plugins

LONG_S = 20
TARGET = '''
import os, signal, subprocess, sys, threading
from plugbay import Device, DevicePlugin

class Thing(DevicePlugin):
    resource_name = "example.com/thing"

    def __init__(self):
        self.calls = 0

    def discover(self):
        return [Device("a")]

    def count(self, step):
        self.calls += step
        return self.calls

    @staticmethod
    def double(number):
        return 2 * number

def fail():
    raise OSError("no such card")

def leave():
    sys.exit("enough")

def abort():
    os.abort()

def stop():
    os._exit(3)

def hang():
    threading.Event().wait()

def hang_when(told):
    if told:
        hang()

def hang_in_c():
    """Python is not asked any more, as in an ioctl that never returns."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    import time
    time.sleep(1000)

def chatter():
    print("x" * 100_000)
    sys.stdin.read()
    return "quiet"

def unpicklable():
    return lambda: None

def modules():
    return sorted(sys.modules)

def rss_kb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

def parent():
    return os.getppid()

def oom_score():
    return int(open("/proc/self/oom_score_adj").read())
'''


@pytest.fixture(autouse=True)
def _patient_with_the_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it may take a while until somebody sees how a process has ended."""
    monkeypatch.setattr(worker_process, "DIE_S", float(LONG_S))


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The module that a serve target makes, and its plugin as ``thing``."""
    file = tmp_path_factory.mktemp("targets") / "isolated.py"
    file.write_text(TARGET)
    [thing] = load_plugins(str(file))
    module: Any = sys.modules[type(thing).__module__]
    module.thing = thing
    return module


async def answer_of(function: Callable[..., Any], *arguments: object, timeout_s: float = LONG_S) -> object:
    async with Worker(function) as worker:
        return await worker.call(*arguments, timeout_s=timeout_s)


async def test_function_is_called_elsewhere(functions: Any) -> None:
    async with Worker(functions.parent) as worker:
        assert worker.pid is None
        assert await worker.call(timeout_s=LONG_S) == Returned(os.getpid())
        assert worker.pid is not None


async def test_method_takes_a_copy_of_its_object_along(functions: Any) -> None:
    async with Worker(functions.thing.count) as worker:
        assert [await worker.call(step, timeout_s=LONG_S) for step in (1, 2)] == [Returned(1), Returned(3)]
    assert functions.thing.calls == 0
    assert await answer_of(functions.thing.double, 4) == Returned(8)


async def test_copy_is_made_when_the_process_starts(functions: Any) -> None:
    thing = copy.copy(functions.thing)
    async with Worker(thing.count) as worker:
        thing.calls = 5
        assert await worker.call(1, timeout_s=LONG_S) == Returned(6)
    async with Worker(thing.count) as worker:
        thing.calls = threading.Lock()
        outcome = await worker.call(1, timeout_s=LONG_S)
        assert isinstance(outcome, Raised)
        assert "Thing.count cannot run in a process of its own: cannot pickle" in outcome.problem


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("fail", Raised("OSError: no such card (isolated.py:23)")),
        ("leave", Raised("SystemExit: enough (isolated.py:26)")),
        ("abort", Died("was killed by SIGABRT")),
        ("stop", Died("exited with code 3")),
        ("chatter", Returned("quiet")),
    ],
)
async def test_outcome_is_told(functions: Any, name: str, outcome: object) -> None:
    assert await answer_of(getattr(functions, name)) == outcome


async def test_value_that_cannot_travel_is_a_failure(functions: Any) -> None:
    outcome = await answer_of(functions.unpicklable)
    assert isinstance(outcome, Raised)
    assert "pickle" in outcome.problem


@pytest.mark.parametrize("name", ["hang", "hang_in_c"])
async def test_process_that_hangs_is_killed(functions: Any, name: str) -> None:
    async with Worker(getattr(functions, name)) as worker:
        assert await worker.call(timeout_s=0.2) == TimedOut()
        assert worker.pid is None


async def test_worker_starts_again_after_its_process_died(functions: Any) -> None:
    async with Worker(functions.thing.count) as worker:
        assert await worker.call(1, timeout_s=LONG_S) == Returned(1)
        first = worker.pid
        assert first is not None
        os.kill(first, 9)
        assert await worker.call(1, timeout_s=LONG_S) == Died("was killed by SIGKILL")
        assert await worker.call(1, timeout_s=LONG_S) == Returned(1)
        assert worker.pid not in (None, first)


async def test_cancelled_call_leaves_no_late_answer(functions: Any) -> None:
    async with Worker(functions.hang_when) as worker:
        assert await worker.call(False, timeout_s=LONG_S) == Returned(None)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(worker.call(True, timeout_s=LONG_S), 0.05)
        assert worker.pid is None
        assert await worker.call(False, timeout_s=LONG_S) == Returned(None)


async def test_module_that_cannot_be_loaded_again_is_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "fickle.py"
    file.write_text(TARGET)
    thing: Any = load_plugins(str(file))[0]
    file.write_text("import nothing_like_it")
    assert await answer_of(thing.count, 1) == Raised(
        "ModuleNotFoundError: No module named 'nothing_like_it' (fickle.py:1)"
    )


async def test_worker_loads_no_grpc_and_stays_lean(functions: Any) -> None:
    loaded = await answer_of(functions.modules)
    assert isinstance(loaded, Returned)
    assert not {"grpc", "asyncio", "google.protobuf", "site", "pathlib"} & set(loaded.value)  # type: ignore[call-overload]
    size = await answer_of(functions.rss_kb)
    assert isinstance(size, Returned)
    assert size.value < 20 * 1024  # type: ignore[operator]


async def test_memory_that_ends_takes_the_worker_first(functions: Any) -> None:
    assert await answer_of(functions.oom_score) == Returned(1000)


async def test_worker_is_replaced_on_demand(functions: Any) -> None:
    async with Worker(functions.thing.count) as worker:
        assert worker.rss_bytes == 0
        assert await worker.call(1, timeout_s=LONG_S) == Returned(1)
        assert 5 << 20 < worker.rss_bytes < 100 << 20
        first = worker.pid
        await worker.recycle()
        assert (worker.pid, worker.rss_bytes) == (None, 0)
        assert await worker.call(1, timeout_s=LONG_S) == Returned(1)
        assert worker.pid != first


async def test_a_machine_without_room_for_a_process_is_a_failure(functions: Any) -> None:
    async with Worker(functions.thing.count) as worker:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            outcome = await worker.call(1, timeout_s=LONG_S)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert isinstance(outcome, Raised)
        assert outcome.problem.startswith("no process can be started for it: ")
        assert await worker.call(1, timeout_s=LONG_S) == Returned(1)


@pytest.mark.parametrize("function", [lambda: None, threading.Lock().acquire], ids=["lambda", "lock"])
def test_what_cannot_travel_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(CannotIsolate, match="cannot run in a process of its own"):
        Worker(function)


MAIN = """
import asyncio, sys
from plugbay.ops.workers import Worker

def name(number):
    return f"{__name__} {number}"

async def main():
    async with Worker(name) as worker:
        print(await worker.call(7, timeout_s=20))

if __name__ == "__main__":
    asyncio.run(main())
"""


async def test_function_of_the_main_file_is_found(tmp_path: Path) -> None:
    file = tmp_path / "main.py"
    file.write_text(MAIN)
    process = await asyncio.create_subprocess_exec(sys.executable, str(file), stdout=asyncio.subprocess.PIPE)
    out, _ = await asyncio.wait_for(process.communicate(), LONG_S)
    assert out.decode().strip() == "Returned(value='__plugbay_main__ 7')"


HANGING_MAIN = MAIN.replace("def name(number):", "def name(number):\n    hang()").replace(
    "def name",
    """
def hang():
    import os, signal
    print(os.getpid(), flush=True)
    signal.pause()

def name""",
    1,
)


async def test_worker_that_hangs_dies_with_its_parent(tmp_path: Path) -> None:
    file = tmp_path / "main.py"
    file.write_text(HANGING_MAIN)
    process = await asyncio.create_subprocess_exec(sys.executable, str(file), stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    worker = int(await asyncio.wait_for(process.stderr.readline(), LONG_S))
    pidfd = os.pidfd_open(worker)
    try:
        process.kill()
        await process.communicate()
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(pidfd, ended.set)
        await asyncio.wait_for(ended.wait(), LONG_S)
    finally:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)


@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_a_process_whose_start_is_cancelled_ends(turns: int) -> None:
    spawned = spawn_worker(Path(worker_main.__file__))
    adopting = asyncio.ensure_future(WorkerProcess.adopt(spawned))
    for _ in range(turns):
        await asyncio.sleep(0)
    if adopting.cancel():
        with pytest.raises(asyncio.CancelledError):
            await adopting
    else:
        assert await adopting.result().kill()
    assert spawned.process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("turns", [1, 2])
async def test_a_killed_process_is_waited_for_although_that_is_cancelled(turns: int) -> None:
    worker = await WorkerProcess.start(Path(worker_main.__file__))
    process = worker._process
    killing = asyncio.ensure_future(worker.kill())
    for _ in range(turns):
        await asyncio.sleep(0)
    if killing.cancel():
        with pytest.raises(asyncio.CancelledError):
            await killing
    assert process.returncode == -signal.SIGKILL
