"""The plugin process, as it runs on every node: `plugbay serve` beside a fake kubelet."""

from __future__ import annotations

import asyncio
import compileall
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Final

import plugbay
from bench.allocating import allocate_p50_ms
from bench.figures import Figure, Pace
from bench.processes import children, cpu_ms_per_min, open_files, python, rss_mb
from plugbay.kubelet.paths import KubeletPaths
from plugbay.ops.http_client import UnixHttpClient
from plugbay.testing.fakes.kubelet import FakeKubelet, RegisteredPlugin, fake_kubelet

RESOURCE: Final = "example.com/gopher"
RESOURCES: Final = 50
COLD_STARTS: Final = 5
TIMED_RESTARTS: Final = 50
RESTARTS: Final = {Pace.FULL: 1000, Pace.QUICK: 100}
HOTPLUGS: Final = 20
SETTLING_S: Final = {Pace.FULL: 60.0, Pace.QUICK: 3.0}
"""The first minute does not count: interpreter and gRPC are still tidying up."""
QUIET: Final = Path("/dev/shm")
"""A plugin watches the directories above its own: in /tmp every other program would wake it."""
IDLE_WINDOW_S: Final = {Pace.FULL: 60.0, Pace.QUICK: 10.0}
METRICS_SLACK_MB: Final = 8

MANY: Final = f"""
from pathlib import Path
from plugbay.plugins.directory.plugin import DirectoryPlugin

gophers = Path({{gophers!r}})
for number in range({RESOURCES}):
    globals()[f"p{{{{number}}}}"] = DirectoryPlugin(f"{RESOURCE}-{{{{number}}}}", gophers, env="Gopher")
"""
ISOLATED: Final = f"""
from plugbay import Device, DevicePlugin, health

class Checked(DevicePlugin):
    resource_name = "{RESOURCE}"

    def discover(self):
        return [Device("g0")]

    @health(every=3600, isolate=True)
    def check(self, device):
        return True

checked = Checked()
"""


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    compileall.compile_dir(Path(plugbay.__file__).parent, quiet=1)  # as installed; compiling costs time and memory
    with tempfile.TemporaryDirectory(prefix="pb", dir=QUIET if QUIET.is_dir() else None) as directory:
        # two levels down: the plugin also sees what happens beside the directory that holds a watched one, and the
        # system's directory for temporary files is busier than /etc or /var/lib
        var, gophers = Path(directory) / "var", Path(directory) / "etc" / "gophers"
        gophers.mkdir(parents=True)
        var.mkdir()
        (gophers / "g0").touch()
        async for figure in idle(pace, var, gophers):
            yield figure
        async with fake_kubelet(KubeletPaths(var / "root")) as kubelet:
            yield Figure("cold_start_ms", await cold_start_ms(kubelet, var / "root", gophers), "ms", 170)
            async with serving(var / "root", gophers) as process:
                plugin = await registered(kubelet)
                allocate_ms, bare_ms = await allocate_p50_ms(plugin.socket, "g0", var, pace)
                yield Figure("bare_echo_p50_ms", bare_ms, "ms", None)
                yield Figure("allocate_p50_ms", allocate_ms, "ms", 0.45)
                yield Figure("allocate_to_bare_echo", allocate_ms / bare_ms, "x", None)
                yield Figure("hotplug_ms", await hotplug_ms(plugin, gophers), "ms", 50)
                async for figure in restarts(kubelet, process.pid, pace):
                    yield figure


async def idle(pace: Pace, var: Path, gophers: Path) -> AsyncIterator[Figure]:
    """What processes use that have nothing to do; all at the same time, each with a kubelet of its own."""
    async with AsyncExitStack() as up:

        async def served(
            name: str, resources: int, process: AbstractAsyncContextManager[asyncio.subprocess.Process]
        ) -> int:
            kubelet = await up.enter_async_context(fake_kubelet(KubeletPaths(var / name)))
            pid = (await up.enter_async_context(process)).pid
            for _ in range(resources):
                await registered(kubelet)
            return pid

        many, isolated = var / "many.py", var / "isolated.py"
        many.write_text(MANY.format(gophers=str(gophers)))
        isolated.write_text(ISOLATED)
        one = await served("one", 1, serving(var / "one", gophers))
        shown = await served("shown", 1, serving(var / "shown", gophers, "--metrics", f"unix:{var / 'pages.sock'}"))
        fifty = await served("fifty", RESOURCES, serve(var / "fifty", str(many)))
        checked = await served("checked", 1, serve(var / "checked", str(isolated)))
        bare = await up.enter_async_context(python("-m", "bench.peers.echo", str(var / "idle.sock"), ""))
        # What a scrape needs is part of the price.
        await asyncio.to_thread(UnixHttpClient(var / "pages.sock", timeout_s=30).request, "GET", "/metrics")
        await asyncio.sleep(SETTLING_S[pace])
        one_mb = rss_mb(one)
        yield Figure("plugin_rss_mb_1", one_mb, "MB", 30)
        yield Figure("plugin_rss_mb_metrics", rss_mb(shown), "MB", one_mb + METRICS_SLACK_MB)
        yield Figure("plugin_rss_mb_50", rss_mb(fifty), "MB", 36)
        [worker] = children(checked)
        yield Figure("worker_rss_mb", rss_mb(worker), "MB", 14)
        of_one, of_shown, of_fifty, of_bare = await cpu_ms_per_min(IDLE_WINDOW_S[pace], one, shown, fifty, bare.pid)
        yield Figure("plugin_idle_cpu_ms_per_min", of_one, "ms/min", 3)
        yield Figure("plugin_idle_cpu_ms_per_min_metrics", of_shown, "ms/min", 3)
        yield Figure("plugin_idle_cpu_ms_per_min_50", of_fifty, "ms/min", 3)
        # Timers of grpcio's own threads, without a connection; of ours none is woken while nothing happens.
        yield Figure("bare_idle_cpu_ms_per_min", of_bare, "ms/min", None)


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


async def restarts(kubelet: FakeKubelet, pid: int, pace: Pace) -> AsyncIterator[Figure]:
    """From a new kubelet.sock, all sockets of before being gone, to the registration; and what many of them cost."""
    taken = [await reregistration_s(kubelet) for _ in range(TIMED_RESTARTS)]
    yield Figure("reregister_ms", statistics.median(taken) * 1000, "ms", 200)
    memory_mb, files = rss_mb(pid), open_files(pid)
    for _ in range(RESTARTS[pace] - TIMED_RESTARTS):
        await reregistration_s(kubelet)
    yield Figure("restarts_rss_growth_mb", rss_mb(pid) - memory_mb, "MB", 3)
    yield Figure("restarts_fd_growth", open_files(pid) - files, "files", 0)


async def reregistration_s(kubelet: FakeKubelet) -> float:
    await kubelet.stop()
    started = time.perf_counter()
    await kubelet.start()
    plugin = await kubelet.next_registration()
    taken_s = time.perf_counter() - started
    await plugin.next_list()
    return taken_s


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


async def registered(kubelet: FakeKubelet) -> RegisteredPlugin:
    """The plugin that registers next, with its first list read."""
    plugin = await kubelet.next_registration()
    await plugin.next_list()
    return plugin


def serving(root: Path, gophers: Path, *options: str) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
    """The ready-made plugin with one resource."""
    directory = ("directory", "--resource", RESOURCE, "--path", str(gophers), "--env", "Gopher")
    return serve(root, *directory, *options)


def serve(root: Path, *arguments: str) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
    """``plugbay serve`` as a process of its own."""
    return python("-m", "plugbay", "serve", "--log-level", "warning", "--root", str(root), *arguments)
