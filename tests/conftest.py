"""What every test gets: fixed property tests, short socket paths, and no process left behind."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.blocking import LoopGuard
from tests.leftovers import still_running

_SLOW_IS_FINE = [HealthCheck.too_slow]
settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.register_profile("quick", settings.get_profile("fixed"), max_examples=20)
settings.register_profile(
    "soak", deadline=None, max_examples=5_000, print_blob=True, suppress_health_check=_SLOW_IS_FINE
)
settings.load_profile("fixed")

ENDING_S = 20
_QUICK = Path(__file__).parent / "unit"


def pytest_configure() -> None:
    """Compare output without colour, whatever CI asks for.

    Let Ctrl-C reach the commands that tests start: a shell's background job ignores it, and so do its children.
    """
    os.environ.pop("FORCE_COLOR", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)  # after those have gone that are not wanted
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each process of pytest-xdist begin with tests that take long, and end with quick ones.

    It gives every process an equal part, in this order, and one that has done its part takes from the end of others':
    what takes long would else be done by one process alone, while nothing runs beside it. Modules stay together.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    modules: dict[Path, list[pytest.Item]] = {}
    quick = [item for item in items if _QUICK in item.path.parents]
    for item in sorted(items, key=lambda item: item.get_closest_marker("timeout") is None):
        if _QUICK not in item.path.parents:
            modules.setdefault(item.path, []).append(item)
    parts: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for number, tests in enumerate(modules.values()):
        parts[number % workers] += tests
    most = -(-len(items) // workers)
    for part in parts:
        wanted = max(0, most - len(part))
        part += quick[:wanted]
        del quick[:wanted]
    items[:] = [item for part in parts for item in part] + quick


def pytest_collection_finish() -> None:
    """Keep what was collected from Python's search for garbage: it stays, and is most of what there is to look through.

    Without this a tenth of the tests' own time went there.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def loop_guard() -> Iterator[LoopGuard]:
    guard = LoopGuard()
    with guard.armed():
        yield guard


@pytest.fixture(autouse=True)
def no_waiting_loop(loop_guard: LoopGuard) -> Iterator[None]:
    """Fail a test in which plugbay kept the event loop waiting; see `tests.blocking`."""
    loop_guard.found.clear()
    yield
    if loop_guard.found:
        pytest.fail("\n".join(loop_guard.found))


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Undo what a command run in this process did to the logs: its handler writes to a stream that ends with the test.

    Later tests would find complaints about that in their own output, depending on the order of tests.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A new directory whose path is short enough (under 60 bytes) for sockets some levels below it."""
    with tempfile.TemporaryDirectory(prefix="pb", dir="/tmp") as directory:
        yield Path(directory)
        if left := still_running(_running_on(directory), within_s=ENDING_S):
            pytest.fail(f"left running: {', '.join(f'{pid} ({_command(pid)})' for pid in sorted(left))}")


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Fail a test after which a child process of ours still runs; one that is just ending is waited for."""
    before = _children()
    yield
    if left := still_running(_children() - before, within_s=ENDING_S):
        pytest.fail(f"left running: {', '.join(f'{pid} ({_command(pid)})' for pid in sorted(left))}")


def _children() -> set[int]:
    children: set[int] = set()
    for listing in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            children.update(map(int, listing.read_text().split()))
    return children


def _running_on(directory: str) -> set[int]:
    """Also who is no child of ours any more: a container's wrapper names its directory, and lives as long as it."""
    running: set[int] = set()
    for commandline in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if directory.encode() in commandline.read_bytes():
                running.add(int(commandline.parent.name))
    return running


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
