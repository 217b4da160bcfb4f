"""What it costs to see a node: ``plugbay who`` on 1,000 allocations, and ``plugbay export`` with ten times as many.

The kubelet is played by this process, on the files and the socket that a stock kubelet has. The time of ``who`` is
that of the whole process; the gap is the longest time between scrapes that show all devices, while the kubelet is away
and comes back; the view is fresh when it has been read anew.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from bench.figures import Figure, Pace
from bench.processes import python, rss_mb
from bench.see_page import measure_page
from plugbay.ops.http_client import UnixHttpClient
from tests.contract.rigs.seen_kubelet import SeenKubelet, entry, holding, offered

_WHO_MS: Final = 350
_SCRAPE_MS: Final = 120
_RSS_MB: Final = 60
_GAP_MS: Final = 1000
_PODS: Final = 1_000
_DEVICES_EACH: Final = 10
_START_S: Final = 60
_STALE: Final = re.compile(rb"^plugbay_node_view_stale (?P<value>[01])$", re.MULTILINE)


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    times = 15 if pace is Pace.FULL else 3
    with tempfile.TemporaryDirectory(prefix="pb") as directory:
        kubelet = _kubelet(Path(directory) / "1", each=1)
        async with kubelet.answering():
            taken = [await _who_ms(kubelet) for _ in range(times)]
        yield Figure("who_ms_1000", statistics.median(taken), "ms", _WHO_MS)
        kubelet = _kubelet(Path(directory) / "10", each=_DEVICES_EACH)
        async for figure in _export(kubelet, times):
            yield figure
        async for figure in measure_page(pace, Path(directory)):
            yield figure


async def _export(kubelet: SeenKubelet, times: int) -> AsyncIterator[Figure]:
    socket = kubelet.base / "export.sock"
    command = ("-m", "plugbay", "export", "--listen", f"unix:{socket}", "--ask", "list", *kubelet.argv)
    async with python(*command, "--log-level", "error") as process:
        async with kubelet.answering():
            await _until_fresh(socket)
            taken = []
            for _ in range(times):
                await asyncio.sleep(0.5)  # the page before is too old
                began = time.perf_counter()
                await asyncio.to_thread(_scrape, socket)
                taken.append((time.perf_counter() - began) * 1000)
            yield Figure("scrape_ms_10000", statistics.median(taken), "ms", _SCRAPE_MS)
            yield Figure("export_rss_mb_10000", rss_mb(process.pid), "MB", _RSS_MB)
        gaps = [time.perf_counter()]
        while not _is_stale(await _whole(socket, gaps)):
            await asyncio.sleep(0.05)
        async with kubelet.answering():
            began = time.perf_counter()
            while _is_stale(await _whole(socket, gaps)):
                await asyncio.sleep(0.05)
            yield Figure("view_fresh_after_restart_ms", (time.perf_counter() - began) * 1000, "ms", None)
        longest = max(after - before for before, after in pairwise(gaps))
        yield Figure("longest_gap_over_restart_ms", longest * 1000, "ms", _GAP_MS)


async def _whole(socket: Path, moments: list[float]) -> bytes:
    """A scrape; its moment is noted if all devices are in it."""
    page = await asyncio.to_thread(_scrape, socket)
    if page.count(b"\nplugbay_node_device_assigned{") == _PODS * _DEVICES_EACH:
        moments.append(time.perf_counter())
    return page


def _kubelet(base: Path, *, each: int) -> SeenKubelet:
    kubelet = SeenKubelet(base)
    entries, healthy = [], list[str]()
    for number in range(_PODS):
        ids = tuple(f"gpu-{number:04}-{device}" for device in range(each))
        uid = f"00000000-0000-4000-8000-{number:012}"
        kubelet.add_pod(uid, f"pod-{number}")
        kubelet.pods.append(holding(f"pod-{number}", "main", *ids))
        entries.append(entry(uid, "main", *ids))
        healthy += ids
    kubelet.devices = offered(*healthy)
    kubelet.write_checkpoint(entries, healthy)
    return kubelet


async def _who_ms(kubelet: SeenKubelet) -> float:
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "plugbay", "who", *kubelet.argv, stdout=asyncio.subprocess.PIPE
    )
    shown, _ = await process.communicate()
    took_ms = (time.perf_counter() - began) * 1000
    if process.returncode or len(shown.splitlines()) != _PODS + 1:
        raise RuntimeError(f"plugbay who did not show all devices; its exit code was {process.returncode}")
    return took_ms


async def _until_fresh(socket: Path) -> None:
    async with asyncio.timeout(_START_S):
        while not socket.exists() or _is_stale(await asyncio.to_thread(_scrape, socket)):
            await asyncio.sleep(0.02)


def _scrape(socket: Path) -> bytes:
    return UnixHttpClient(socket).request("GET", "/metrics").body


def _is_stale(page: bytes) -> bool:
    """Whether no view is shown, or an old one."""
    found = _STALE.search(page)
    return found is None or found["value"] == b"1"
