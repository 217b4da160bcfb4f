"""The generic plugin as a process: how soon a node is listed, and what it costs while nothing happens."""

from __future__ import annotations

import asyncio
import compileall
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import plugbay
from bench.figures import Figure, Pace
from bench.plugin import IDLE_WINDOW_S, QUIET, SETTLING_S, registered, serve
from bench.processes import cpu_ms_per_min, rss_mb
from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.fakes.kubelet import RegisteredPlugin, fake_kubelet

RESOURCES: Final = 10
HOTPLUGS: Final = {Pace.FULL: 50, Pace.QUICK: 5}
APART_S: Final = 0.1
"""Devices that come one after the other, each by itself."""
HOTPLUG_MS: Final = 40
IDLE_MS_PER_MIN: Final = 5
RSS_MB: Final = 40


async def served(pace: Pace) -> AsyncIterator[Figure]:
    """The figures of a process that serves ten resources of a machine in a directory."""
    compileall.compile_dir(Path(plugbay.__file__).parent, quiet=1)  # as installed
    with tempfile.TemporaryDirectory(prefix="pb", dir=QUIET if QUIET.is_dir() else None) as directory:
        place = Path(directory)
        (place / "machine/sys").mkdir(parents=True)
        nodes = place / "machine/dev"
        nodes.mkdir()
        config = place / "etc/devices.json"
        config.parent.mkdir()
        config.write_text(json.dumps({"domain": "example.com", "devices": [_entry(each) for each in range(RESOURCES)]}))
        words = ("generic", "--config", str(config), "--machine-root", str(place / "machine"))
        async with AsyncExitStack() as up:
            kubelet = await up.enter_async_context(fake_kubelet(KubeletPaths(place / "k")))
            process = await up.enter_async_context(serve(place / "k", *words))
            plugins = [await registered(kubelet) for _ in range(RESOURCES)]
            await asyncio.sleep(SETTLING_S[pace])
            yield Figure(f"generic_rss_mb_{RESOURCES}", rss_mb(process.pid), "MB", RSS_MB)
            [used] = await cpu_ms_per_min(IDLE_WINDOW_S[pace], process.pid)
            yield Figure("generic_idle_cpu_ms_per_min", used, "ms/min", IDLE_MS_PER_MIN)
            first = next(each for each in plugins if each.registration.resource_name == "example.com/port-0")
            taken = [await hotplug_ms(first, nodes / f"port0-{number}") for number in range(HOTPLUGS[pace])]
            yield Figure("generic_hotplug_p50_ms", statistics.median(taken), "ms", HOTPLUG_MS)
            yield Figure("generic_hotplug_max_ms", max(taken), "ms", None)


def _entry(number: int) -> object:
    path = {"path": f"/dev/port{number}-*", "anyFile": True}
    return {"name": f"port-{number}", "groups": [{"paths": [path]}]}


async def hotplug_ms(plugin: RegisteredPlugin, node: Path) -> float:
    """From a new node to the list with its device at the kubelet."""
    await asyncio.sleep(APART_S)
    count = len(plugin.devices)
    began = time.perf_counter()
    node.touch()
    while len(await plugin.next_list()) == count:
        pass
    return (time.perf_counter() - began) * 1000
