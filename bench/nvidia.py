"""What the NVIDIA plugin costs: its choice of GPUs, and its two processes as they run on every node."""

from __future__ import annotations

from collections.abc import AsyncIterator

from bench.choosing import choices
from bench.figures import Figure, Pace
from bench.nvidia_processes import processes


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    for figure in choices(pace):
        yield figure
    async for figure in processes(pace):
        yield figure
