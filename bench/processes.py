"""What processes use, and ending those that a bench started."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Final

STOPPING_S: Final = 10


@asynccontextmanager
async def python(
    *arguments: str, environ: Mapping[str, str] | None = None, log: IO[str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """``python ARGUMENTS`` as a process of its own until the block ends, with ``environ`` or our environment.

    Args:
        log: the file for its standard error; ours by default.
    """
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, env=environ, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOPPING_S)
        except TimeoutError:
            process.kill()
            await process.wait()


async def cpu_ms_per_min(window_s: float, *pids: int) -> list[float]:
    """Processor time that each process uses from now on, scaled to a minute."""
    used, began = [cpu_seconds(pid) for pid in pids], time.monotonic()
    await asyncio.sleep(window_s)
    minutes = (time.monotonic() - began) / 60
    return [(cpu_seconds(pid) - before) * 1000 / minutes for pid, before in zip(pids, used, strict=True)]


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


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def children(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]


def descendants(pid: int) -> list[int]:
    """The processes below ``pid``, at whatever depth."""
    below: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                parent = int(Path(entry.path, "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it has ended
            below.setdefault(parent, []).append(int(entry.name))
    found, todo = list[int](), [pid]
    while todo:
        children = below.get(todo.pop(), [])
        found += children
        todo += children
    return found
