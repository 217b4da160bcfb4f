"""The plugin process, as it runs on every node: `plugbay serve directory` with one resource, beside a fake kubelet."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bench.figures import Figure, Pace
from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.fake_kubelet import FakeKubelet, RegisteredPlugin, fake_kubelet

RESOURCE: Final = "example.com/gopher"
COLD_STARTS: Final = 5
RESTARTS: Final = 20
HOTPLUGS: Final = 20
STOPPING_S: Final = 10
SETTLING_S: Final = {Pace.FULL: 60.0, Pace.QUICK: 3.0}
"""The first minute does not count: interpreter and gRPC are still tidying up."""
QUIET: Final = Path("/dev/shm")
"""A plugin watches the directories above its own: in /tmp every other program would wake it."""
IDLE_WINDOW_S: Final = {Pace.FULL: 60.0, Pace.QUICK: 10.0}


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="pb", dir=QUIET if QUIET.is_dir() else None) as directory:
        # two levels down: the plugin also sees what happens beside the directory that holds a watched one, and the
        # system's directory for temporary files is busier than /etc or /var/lib
        root, gophers = Path(directory) / "var" / "root", Path(directory) / "etc" / "gophers"
        gophers.mkdir(parents=True)
        (gophers / "g0").touch()
        async with fake_kubelet(KubeletPaths(root)) as kubelet:
            yield Figure("cold_start_ms", await cold_start_ms(kubelet, root, gophers), "ms", 600)
            async with serving(root, gophers) as process:
                plugin = await registered(kubelet)
                await asyncio.sleep(SETTLING_S[pace])
                yield Figure("plugin_rss_mb_1", rss_mb(process.pid), "MB", 45)
                yield Figure(
                    "plugin_idle_cpu_ms_per_min", await cpu_ms_per_min(process.pid, IDLE_WINDOW_S[pace]), "ms/min", 20
                )
                yield Figure("hotplug_ms", await hotplug_ms(plugin, gophers), "ms", 50)
                yield Figure("reregister_ms", await reregister_ms(kubelet), "ms", 200)


async def cold_start_ms(kubelet: FakeKubelet, root: Path, gophers: Path) -> float:
    """From the start of the process to its registration; the median."""
    taken = []
    for _ in range(COLD_STARTS):
        started = time.perf_counter()
        async with serving(root, gophers):
            plugin = await kubelet.next_registration()
            taken.append(time.perf_counter() - started)
        await plugin.until_ended()
    return statistics.median(taken) * 1000


async def reregister_ms(kubelet: FakeKubelet) -> float:
    """From a new kubelet.sock, all sockets of before being gone, to the registration; the median."""
    taken = []
    for _ in range(RESTARTS):
        await kubelet.stop()
        started = time.perf_counter()
        await kubelet.start()
        plugin = await kubelet.next_registration()
        taken.append(time.perf_counter() - started)
        await plugin.next_list()
    return statistics.median(taken) * 1000


async def hotplug_ms(plugin: RegisteredPlugin, gophers: Path) -> float:
    """From a new file to the list with its device at the kubelet; the median."""
    taken = []
    names = sorted(path.name for path in gophers.iterdir())
    for number in range(1, HOTPLUGS + 1):
        names = sorted([*names, f"g{number}"])
        started = time.perf_counter()
        (gophers / f"g{number}").touch()
        await plugin.until_devices(*names)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1000


async def cpu_ms_per_min(pid: int, window_s: float) -> float:
    """Processor time that process ``pid`` uses from now on, scaled to a minute."""
    used, began = cpu_seconds(pid), time.monotonic()
    await asyncio.sleep(window_s)
    return (cpu_seconds(pid) - used) / (time.monotonic() - began) * 60 * 1000


def cpu_seconds(pid: int) -> float:
    """Processor time of all threads so far, to the nanosecond; ``/proc/PID/stat`` counts in steps of 10 ms.

    The clock's number is what clock_getcpuclockid(3), which Python lacks, makes of a pid.
    """
    return time.clock_gettime((~pid << 3) | 2)


def rss_mb(pid: int) -> float:
    """Resident memory of process ``pid`` in units of 2**20 bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no memory")


async def registered(kubelet: FakeKubelet) -> RegisteredPlugin:
    """The plugin that registers next, with its first list read."""
    plugin = await kubelet.next_registration()
    await plugin.next_list()
    return plugin


@asynccontextmanager
async def serving(root: Path, gophers: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """The plugin as a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "plugbay", "serve", "directory", "--log-level", "warning", "--root", str(root)),
        *("--resource", RESOURCE, "--path", str(gophers), "--env", "Gopher"),
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOPPING_S)
        except TimeoutError:
            process.kill()
            await process.wait()
