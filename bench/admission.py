"""Admission by the Device Manager: two processes, a real plugin, the durable store and the checkpoint view on.

A kubelet with a Go plugin takes 3.0 ms at 100 devices and 100 pods, 12.5 at 1,000 and 1,000, 24 (p99 51) at 10,000 and
1,000, on two cores.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from bench.figures import Figure, Pace

SIZES: Final = {Pace.FULL: ((100, 100), (1_000, 1_000), (10_000, 1_000)), Pace.QUICK: ((100, 20), (10_000, 20))}
P50_MS: Final = {100: 1.2, 1_000: 1.4, 10_000: 1.4}
P99_MS: Final = 12.0
MANY: Final = 10_000
PREFERENCES: Final = {Pace.FULL: 100, Pace.QUICK: 5}
FLIPS: Final = {Pace.FULL: 40, Pace.QUICK: 6}
PODS: Final = {Pace.FULL: 1_000, Pace.QUICK: 50}
STARTS: Final = {Pace.FULL: 5, Pace.QUICK: 1}
PATIENCE_S: Final = 120


class Peer:
    """A process of `bench.peers` and the lines it prints."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout

    async def hear(self, member: str) -> Any:
        """``member`` of the next line that has it."""
        async with asyncio.timeout(PATIENCE_S):
            async for line in self._output:
                if member in (said := json.loads(line)):
                    return said[member]
        raise EOFError(f"ended without {member}")

    def tell(self) -> None:
        self._input.write(b"\n")


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    typical: dict[int, float] = {}
    for devices, pods in SIZES[pace]:
        async for figure in admissions(devices, pods):
            if figure.name.startswith("admission_p50_ms"):
                typical[devices] = figure.value
            yield figure
    yield Figure("admission_p50_ratio_10000_to_100", typical[MANY] / typical[100], "ratio", 1.25)
    yield Figure("admission_preferred_p50_ms_10000", await preferred_ms(PREFERENCES[pace]), "ms", 8)
    yield Figure("list_update_ms_10000", await list_update_ms(FLIPS[pace]), "ms", 6)
    yield Figure(f"start_{PODS[pace]}_pods_ms", await start_ms(PODS[pace], STARTS[pace]), "ms", 500)


async def admissions(devices: int, pods: int) -> AsyncIterator[Figure]:
    size = f"{devices}_{pods}"
    with tempfile.TemporaryDirectory(prefix="pb") as root:
        async with peer("manager", "admit", root, devices, pods) as manager, peer("plugin", "plain", devices, root):
            taken = await manager.hear("admission")
            rss_mb = await manager.hear("rss_mb")
            allocate_rpc = p50(await manager.hear("allocate_rpc"))
            commit = p50(await manager.hear("commit"))
    typical = p50(taken)
    yield Figure(f"admission_p50_ms_{size}", typical, "ms", P50_MS[devices])
    yield Figure(f"admission_p99_ms_{size}", p99(taken), "ms", P99_MS)
    yield Figure(f"allocate_rpc_p50_ms_{size}", allocate_rpc, "ms", None)
    yield Figure(f"commit_p50_ms_{size}", commit, "ms", None)
    yield Figure(f"admission_p50_ratio_to_bare_{size}", typical / (allocate_rpc + commit), "ratio", 2.5)
    yield Figure(f"manager_rss_mb_{size}", rss_mb, "MB", 110)


async def preferred_ms(rounds: int) -> float:
    """A pod of one device while 10,000 are free and the plugin is asked which; the median."""
    with tempfile.TemporaryDirectory(prefix="pb") as root:
        async with peer("manager", "prefer", root, MANY, rounds) as manager, peer("plugin", "preferring", MANY, root):
            taken = await manager.hear("admission")
    return p50(taken)


async def list_update_ms(rounds: int) -> float:
    """From a plugin's writing of a list with one health change to the manager's new counts; the median."""
    with tempfile.TemporaryDirectory(prefix="pb") as root:
        async with peer("manager", "follow", root, MANY, rounds) as manager:
            await manager.hear("serving")
            async with peer("plugin", "flipping", MANY, root) as plugin:
                await manager.hear("following")
                taken = []
                for _ in range(rounds):
                    plugin.tell()
                    taken.append(await manager.hear("handled") - await plugin.hear("sent"))
    return p50(taken) * 1000


async def start_ms(pods: int, starts: int) -> float:
    """From the start of the process, interpreter included, to serving; with the store and view of so many pods."""
    with tempfile.TemporaryDirectory(prefix="pb") as root:
        async with peer("manager", "admit", root, MANY, pods) as manager, peer("plugin", "plain", MANY, root):
            await manager.hear("commit")
        taken = []
        for _ in range(starts):
            began = time.monotonic()
            async with peer("manager", "start", root, 0, 0) as manager:
                taken.append(await manager.hear("serving") - began)
    return p50(taken) * 1000


@asynccontextmanager
async def peer(module: str, *arguments: object) -> AsyncIterator[Peer]:
    """A process during the block; at its end it is asked to end, and waited for."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"bench.peers.{module}", *map(str, arguments)),
        cwd=Path(__file__).parents[1],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
    )
    try:
        yield Peer(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        if module == "plugin" and process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), PATIENCE_S)
        except BaseException:
            process.kill()
            await process.wait()
            raise


def p50(taken: Sequence[float]) -> float:
    return statistics.median(taken)


def p99(taken: Sequence[float]) -> float:
    return statistics.quantiles(taken, n=100)[98]
