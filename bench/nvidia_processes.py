"""`plugbay serve nvidia` and its NVML worker on a machine with eight GPUs.

The driver is the fake one of `plugbay.testing.fakenvml`: a library that the worker loads, whose calls return at once.
A real driver adds the time of its own calls, above all where it has to be loaded first.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.allocating import allocate_p50_ms
from bench.figures import Figure, Pace
from bench.plugin import IDLE_WINDOW_S, QUIET, SETTLING_S, registered
from bench.processes import children, cpu_ms_per_min, cpu_seconds, python, rss_mb
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.serving.snapshot import ResourceCount
from plugbay.model.ids import ResourceName
from plugbay.ops.clock import SystemClock
from plugbay.testing.fakenvml import FakeDriver, a100_nvswitch, fake_driver, lay_out_machine
from plugbay.testing.fakes.kubelet import fake_kubelet

RESOURCE: Final = ResourceName("nvidia.com/gpu")
GPUS: Final = 8
XID: Final = 79
"""The GPU has fallen off the bus: its device stays unhealthy until a reset."""
STARTS: Final = {Pace.FULL: 11, Pace.QUICK: 3}
XIDS: Final = {Pace.FULL: 5, Pace.QUICK: 1}
"""Plugins, each with an XID of every GPU but one."""
PATIENCE_S: Final = 30


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine with a driver.

    Attributes:
        directory: for roots of kubelets.
        files: the root of the machine's own files.
    """

    driver: FakeDriver
    directory: Path
    files: Path

    @property
    def environ(self) -> Mapping[str, str]:
        ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**ours, **self.driver.environ}

    @asynccontextmanager
    async def serving(self, root: Path) -> AsyncIterator[asyncio.subprocess.Process]:
        """The plugin as a process of its own, with a kubelet at ``root``."""
        words = ("serve", "--log-level", "error", "--root", str(root))
        flags = ("nvidia", "--driver-root-ctr-path=/", f"--machine-root={self.files}")
        async with python("-m", "plugbay", *words, *flags, environ=self.environ) as process:
            yield process


@asynccontextmanager
async def machine() -> AsyncIterator[Machine]:
    """A machine with eight GPUs."""
    with tempfile.TemporaryDirectory(prefix="pb", dir=QUIET if QUIET.is_dir() else None) as name:
        # two levels down, as in `bench.plugin`: a plugin also sees what happens beside the directory of its kubelet
        directory, files = Path(name) / "var" / "lib", Path(name) / "machine"
        directory.mkdir(parents=True)
        model = a100_nvswitch()
        lay_out_machine(files, model)
        async with fake_driver(model) as driver:
            yield Machine(driver, directory, files)


async def processes(pace: Pace) -> AsyncIterator[Figure]:
    async with machine() as node:
        async for figure in starts(node, pace):
            yield figure
        async for figure in one_process(node, pace):
            yield figure
        yield Figure("xid_to_unhealthy_at_manager_ms", await xid_ms(node, XIDS[pace]), "ms", 100)


async def starts(node: Machine, pace: Pace) -> AsyncIterator[Figure]:
    """From the start of the process to its registration with a kubelet: the medians of time, and of processor time.

    A Python that only imports asyncio takes turns with it: what it needs tells how busy the machine is.
    """
    taken, busy, bare = [], [], []
    root = node.directory / "starts"
    async with fake_kubelet(KubeletPaths(root)) as kubelet:
        for _ in range(STARTS[pace]):
            began = time.perf_counter()
            async with node.serving(root) as process:
                plugin = await kubelet.next_registration()
                taken.append(time.perf_counter() - began)
                busy.append(sum(map(cpu_seconds, (process.pid, *children(process.pid)))))
            await plugin.until_ended()
            bare.append(await bare_start_s())
    yield Figure("start_to_registered_ms", statistics.median(taken) * 1000, "ms", 700)
    yield Figure("start_to_registered_cpu_ms", statistics.median(busy) * 1000, "ms", None)
    yield Figure("bare_python_start_ms", statistics.median(bare) * 1000, "ms", None)


async def bare_start_s() -> float:
    """From the start of a Python that imports asyncio to its end."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import asyncio")
    await process.wait()
    return time.perf_counter() - began


async def one_process(node: Machine, pace: Pace) -> AsyncIterator[Figure]:
    """The costs of a plugin that is up: allocations, memory, and what it does while nothing happens."""
    root = node.directory / "one"
    async with fake_kubelet(KubeletPaths(root)) as kubelet, node.serving(root) as process:
        plugin = await registered(kubelet)
        device = node.driver.machine.gpus[0].uuid
        allocate_ms, bare_ms = await allocate_p50_ms(plugin.socket, device, node.directory, pace)
        yield Figure("allocate_p50_ms", allocate_ms, "ms", 1.1)
        yield Figure("allocate_to_bare_echo", allocate_ms / bare_ms, "x", None)
        await asyncio.sleep(SETTLING_S[pace])
        [worker] = children(process.pid)
        yield Figure("plugin_rss_mb_8_gpus", rss_mb(process.pid), "MB", 42)
        yield Figure("nvml_worker_rss_mb_8_gpus", rss_mb(worker), "MB", 22)
        of_plugin, of_worker = await cpu_ms_per_min(IDLE_WINDOW_S[pace], process.pid, worker)
        yield Figure("idle_cpu_ms_per_min", of_plugin + of_worker, "ms/min", 10)
        yield Figure("idle_cpu_ms_per_min_of_worker", of_worker, "ms/min", None)


async def xid_ms(node: Machine, times: int) -> float:
    """From an XID at the driver to a device that our manager has for unhealthy; the median."""
    taken: list[float] = []
    for number in range(times):
        root = node.directory / f"x{number}"
        config = ManagerConfig(KubeletPaths(root), root / "state" / "manager.db")
        (root / "device-plugins").mkdir(parents=True)
        async with node.serving(root), run_manager(config, clock=SystemClock()) as manager:
            await until_count(manager, GPUS)
            await until_watched(manager, node.driver)
            for gpu in range(1, GPUS):
                began = time.perf_counter()
                seen = asyncio.create_task(until_count(manager, GPUS - gpu - 1))
                await node.driver.xid(gpu, XID)
                await seen
                taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


async def until_watched(manager: DeviceManager, driver: FakeDriver) -> None:
    """Repeat an XID of the first GPU until it is seen: a plugin begins to watch its GPUs when it has registered."""
    async with asyncio.timeout(PATIENCE_S):
        while manager.resources().get(RESOURCE) != ResourceCount(GPUS, GPUS - 1):
            await driver.xid(0, XID)
            await asyncio.sleep(0.05)


async def until_count(manager: DeviceManager, healthy: int) -> None:
    """Wait until the manager knows of all GPUs, of which so many are healthy."""
    wanted = ResourceCount(GPUS, healthy)
    async with asyncio.timeout(PATIENCE_S):
        async for _ in manager.changes():
            if manager.resources().get(RESOURCE) == wanted:
                return
