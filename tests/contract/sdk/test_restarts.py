"""Plugins outlive whatever a kubelet does to them, as often as it likes, and leave nothing behind.

20 restarts in every run, 1,000 in `make soak`: at random moments, by SIGTERM and SIGKILL, with sockets removed or not.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from plugbay import Device, DevicePlugin
from plugbay.kubelet.paths import KubeletPaths
from plugbay.sdk.process.runner import serving
from plugbay.sdk.serving import registration
from plugbay.sdk.serving.routes import RegistrationRoute
from plugbay.testing.fakes.kubelet import fake_kubelet
from tests.contract.rigs.manager import Bench, bench

DEADLINE_S: Final = 30
LONG_S: Final = 300
"""For dozens of processes that start one after the other, on a machine that has much else to do."""
MANAGER: Final = Path(__file__).parents[1] / "rigs/crashing_manager.py"
NAMES: Final = ("example.com/r0", "example.com/r1", "example.com/r2")
TARGET: Final = """
from plugbay import Device, DevicePlugin, health, plugin

for number in range(3):
    globals()[f"r{number}"] = plugin(f"example.com/r{number}")(lambda: [Device("a")])

@plugin("example.com/broken", every=0.05)
def broken():
    raise OSError("no such bus")

class Checked(DevicePlugin):
    resource_name = "example.com/checked"

    def discover(self):
        return [Device("a")]

    @health(every=0.5, timeout=30, isolate=True)
    def check(self, device):
        return True
"""
CHILDREN: Final = 1
"""Of a process that serves `TARGET`: the one in which `Checked` is checked."""
WARM_UP: Final = 5
"""So many restarts are enough for all that is kept for good but memory; for that it takes `LONG_WARM_UP`."""
LONG_WARM_UP: Final = 20
POOL: Final = 4 + (os.cpu_count() or 1)
"""How many threads asyncio's executor keeps at most."""
RSS_GROWTH_KB: Final = 3 * 1024
ROUTES = pytest.mark.parametrize("route", RegistrationRoute, ids=lambda route: route.value)

Served = Callable[[], Awaitable[None]]
"""Waits until the plugins are served."""


# --- kubelets that come and go --------------------------------------------------------------------------------------


@asynccontextmanager
async def stopping_manager(root: Path) -> AsyncIterator[Served]:
    """One that stops in order."""
    async with bench(root) as b:
        yield lambda: all_count(b)


async def all_count(b: Bench) -> None:
    for name in NAMES:
        await b.counts(1, 1, resource=name)


@asynccontextmanager
async def killed_manager(root: Path) -> AsyncIterator[Served]:
    """One in a process of its own, which ends by SIGKILL and leaves its socket."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, str(MANAGER), str(root), stdin=pipe, stdout=pipe)

    async def until_answer(number: int) -> None:
        assert process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            assert json.loads(await process.stdout.readline())["id"] == number

    async def until_served() -> None:
        assert process.stdin is not None
        process.stdin.write(b'{"id": 1, "do": "wait"}\n')
        await until_answer(1)

    try:
        await until_answer(0)
        yield until_served
    finally:
        process.kill()
        await process.communicate()


@asynccontextmanager
async def careless_kubelet(root: Path) -> AsyncIterator[Served]:
    """One that leaves all sockets where they are, plugins' included."""
    async with fake_kubelet(KubeletPaths(root), clears_directory=False) as kubelet:

        async def until_served() -> None:
            missing = set(NAMES)
            while missing:
                plugin = await kubelet.next_registration()
                await plugin.until_devices("a")
                missing.discard(plugin.registration.resource_name)

        yield until_served


KUBELETS: Final[dict[RegistrationRoute, list[Callable[[Path], AbstractAsyncContextManager[Served]]]]] = {
    RegistrationRoute.KUBELET: [stopping_manager, stopping_manager, killed_manager, careless_kubelet],
    RegistrationRoute.WATCHER: [stopping_manager, killed_manager],
    RegistrationRoute.BOTH: [stopping_manager, killed_manager],
}


async def restart_at_random(
    root: Path, route: RegistrationRoute, chance: random.Random, restarts: int, ask_anew: Callable[[], None]
) -> None:
    """Kubelets come and go; at the end one has come to stay a while, and has seen all plugins."""
    for _ in range(restarts):
        async with chance.choice(KUBELETS[route])(root) as until_served:
            if chance.random() < 0.5:
                await until_served()
            else:
                await asyncio.sleep(chance.uniform(0, 0.05))  # not to wait for anything: the moment is what varies
            if chance.random() < 0.3:
                remove_sockets(root, chance)
            for _ in range(chance.choice((0, 0, 0, 1, 30))):
                ask_anew()
        if chance.random() < 0.3:
            remove_sockets(root, chance)
    async with stopping_manager(root) as until_served:
        await until_served()


def remove_sockets(root: Path, chance: random.Random) -> None:
    """Remove some: perhaps a kubelet's, perhaps plugins'."""
    for directory in ("device-plugins", "plugins_registry"):
        for path in (root / directory).glob("*.sock"):
            if chance.random() < 0.5:
                path.unlink(missing_ok=True)


# --- in our own process, where tasks can be counted -----------------------------------------------------------------


class Thing(DevicePlugin):
    def __init__(self, name: str) -> None:
        self.resource_name = name

    def discover(self) -> list[Device]:
        return [Device("a")]


class Broken(Thing):
    every = 0.05

    def discover(self) -> list[Device]:
        raise OSError("no such bus")


@pytest.mark.timeout(LONG_S)
@ROUTES
async def test_twenty_restarts_leave_nothing_behind(sockets: Path, route: RegistrationRoute) -> None:
    paths = KubeletPaths(sockets)
    for directory in route.directories(paths):
        directory.mkdir()
    async with stopping_manager(sockets), serving([Thing(NAMES[0])], paths=paths, route=route):
        pass  # what a process keeps for good, it has now
    gc.collect()  # what other tests have left open
    tasks, threads, files = asyncio.all_tasks(), lasting_threads(), lasting_files()
    plugins = [*map(Thing, NAMES), Broken("example.com/broken")]
    async with serving(plugins, paths=paths, route=route) as reload:
        await restart_at_random(sockets, route, random.Random(route.value), 20, reload)
    await until_equal(asyncio.all_tasks, tasks)
    await until_equal(lasting_threads, threads)
    await until_equal(lasting_files, files)
    assert [path for directory in route.directories(paths) for path in directory.glob("example.com_*")] == []


async def until_equal(look: Callable[[], object], wanted: object) -> None:
    """Nothing tells when the last task or thread has ended, or the kernel has closed a descriptor."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DEADLINE_S):
            while look() != wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert look() == wanted


def lasting_threads() -> list[str]:
    """Not those of asyncio's pool, nor the one that waits for the next hook."""
    names = sorted(each.name for each in threading.enumerate() if not each.name.startswith("asyncio_"))
    with suppress(ValueError):
        names.remove("hooks")
    return names


def lasting_files() -> list[str]:
    """The targets of all descriptors; of sockets, which have a number each, only how many there are."""
    return sorted("a socket" if name.startswith("socket:") else name for name in open_files(os.getpid()))


def open_files(pid: int) -> Iterator[str]:
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # that of this very look
            yield os.readlink(entry)


# --- kubelets that misbehave, while others look on -----------------------------------------------------------------


async def test_kubelet_that_hangs_holds_up_neither_the_next_one_nor_the_end(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "REGISTER_TIMEOUT_S", 1000.0)
    paths = KubeletPaths(sockets)
    async with asyncio.timeout(50), fake_kubelet(paths) as kubelet:
        kubelet.hangs = True
        async with serving([Thing(name) for name in NAMES], paths=paths) as reload:
            for _ in NAMES:
                await kubelet.next_attempt()
            for _ in range(100):
                reload()
            kubelet.hangs = False
            await kubelet.restart()
            for _ in NAMES:
                await (await kubelet.next_registration()).until_devices("a")
            kubelet.hangs = True
            await kubelet.restart()
            hanging = await kubelet.next_attempt()
            while not (paths.device_plugins / hanging.endpoint).exists():  # one of those before
                hanging = await kubelet.next_attempt()
            (paths.device_plugins / hanging.endpoint).unlink()
            again = hanging
            while again.resource_name != hanging.resource_name or again.endpoint == hanging.endpoint:
                again = await kubelet.next_attempt()


@ROUTES
async def test_storm_of_reloads_ends_in_one_registration(sockets: Path, route: RegistrationRoute) -> None:
    async with bench(sockets) as b, serving([Thing(NAMES[0])], paths=b.paths, route=route) as reload:
        for _ in range(10):
            await b.counts(1, 1, resource=NAMES[0])
            for _ in range(100):
                reload()
                await asyncio.sleep(0)
        await b.counts(1, 1, resource=NAMES[0])


@ROUTES
async def test_two_incarnations_leave_each_other_alone(sockets: Path, route: RegistrationRoute) -> None:
    """As when a DaemonSet is rolled: whichever ends, the other one goes on."""
    async with bench(sockets) as b:
        async with serving([Thing(NAMES[0])], paths=b.paths, route=route):
            await b.counts(1, 1, resource=NAMES[0])
            old = own_sockets(b)
            async with serving([Pair(NAMES[0])], paths=b.paths, route=route):
                await b.counts(2, 2, resource=NAMES[0])
                assert old < own_sockets(b), "the newer one left the older one's socket alone"
            await b.counts(1, 1, resource=NAMES[0])
            assert own_sockets(b) == old
        await b.counts(1, 0, resource=NAMES[0])


def own_sockets(b: Bench) -> set[str]:
    return {path.name for directory in (b.paths.device_plugins, b.registry) for path in directory.glob("example*.sock")}


class Pair(Thing):
    def discover(self) -> list[Device]:
        return [Device("a"), Device("b")]


@ROUTES
async def test_fifty_resources_outlive_managers_beside_one_that_fails(sockets: Path, route: RegistrationRoute) -> None:
    names = [f"example.com/n{number}" for number in range(50)]
    paths = KubeletPaths(sockets)
    for directory in route.directories(paths):
        directory.mkdir()
    async with serving([*map(Thing, names), Broken("example.com/broken")], paths=paths, route=route):
        for _ in range(3):
            async with bench(sockets) as b:
                for name in names:
                    await b.counts(1, 1, resource=name)
                assert "example.com/broken" not in b.manager.resources()


# --- in a process of their own, which can be measured ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process takes."""

    rss_kb: int
    files: int
    threads: int
    children: int

    @classmethod
    def of(cls, pid: int) -> Usage:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return cls(int(status["VmRSS"].split()[0]), len(list(open_files(pid))), int(status["Threads"]), len(children))

    def costs_no_more_than(self, other: Usage) -> bool:
        """Memory aside, which only grows and shrinks by and by."""
        return self.files <= other.files and self.threads <= other.threads + POOL


@pytest.mark.timeout(LONG_S)
@ROUTES
async def test_twenty_restarts_cost_no_descriptor(sockets: Path, route: RegistrationRoute) -> None:
    await measure_restarts(sockets, route, random.Random(route.value), 20)


@pytest.mark.soak
@ROUTES
async def test_a_thousand_restarts_cost_next_to_nothing(sockets: Path, route: RegistrationRoute) -> None:
    seed = random.randrange(2**32)
    before, after = await measure_restarts(sockets, route, random.Random(seed), 1_000, warm_up=LONG_WARM_UP)
    print("seed", seed, "before", before, "after", after)  # noqa: T201  # the figures are what one runs it for
    assert after.rss_kb - before.rss_kb <= RSS_GROWTH_KB


async def measure_restarts(
    root: Path, route: RegistrationRoute, chance: random.Random, restarts: int, *, warm_up: int = WARM_UP
) -> tuple[Usage, Usage]:
    (root / "target.py").write_text(TARGET)
    for directory in route.directories(KubeletPaths(root)):
        directory.mkdir()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "plugbay", "--root", str(root), "serve", str(root / "target.py")),
        *("--route", route.value, "--log-level", "error"),
        stderr=asyncio.subprocess.PIPE,
    )
    log = asyncio.ensure_future(process.communicate())
    try:
        await restart_at_random(root, route, chance, warm_up, lambda: None)  # a SIGHUP before it listens would end it
        before = await served_usage(root, process.pid)
        # Of each plugin a manager may hold one connection yet, or two; a leak of one for each restart is far more.
        before = replace(before, files=before.files + len(NAMES) + 1)
        await restart_at_random(root, route, chance, restarts, lambda: process.send_signal(signal.SIGHUP))
        after = await served_usage(root, process.pid, most=before)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        _, said = await asyncio.wait_for(log, DEADLINE_S)
    assert process.returncode == 0
    assert b"starting it again" not in said, "no server of ours broke"
    assert said.count(b"Traceback") == said.count(b"looking for devices failed"), "nothing else failed unexpectedly"
    return before, after


async def served_usage(root: Path, pid: int, *, most: Usage | None = None) -> Usage:
    """What a process takes while a manager reads its lists; waits a while for it to come down to ``most``, but RSS.

    Its isolated check has one process, neither none nor two.
    """
    async with stopping_manager(root) as until_served:
        await until_served()
        for _ in range(300):  # the kernel tells nobody that a process closed a descriptor
            usage = Usage.of(pid)
            if usage.children == CHILDREN and (most is None or usage.costs_no_more_than(most)):
                return usage
            await asyncio.sleep(0.1)
    raise AssertionError(f"{usage} instead of {most}")
