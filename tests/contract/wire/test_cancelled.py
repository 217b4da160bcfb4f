"""A server that is cancelled between any two steps of its start and its end: neither the cancellation is lost, nor the
socket left."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from plugbay.wire.grpc.server import serve_grpc

DEADLINE_S = 30
STEPS = range(16)
"""More than either takes."""
TIMES = 5


class Serving:
    def __init__(self, path: Path) -> None:
        self.begins = asyncio.Event()
        self.ends = asyncio.Event()
        self.task = asyncio.create_task(self._serve(path))

    async def _serve(self, path: Path) -> None:
        self.begins.set()
        async with serve_grpc(path, [], grace_s=0.1):
            self.ends.set()
        await asyncio.Event().wait()

    async def cancelled_after(self, steps: int) -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        self.task.cancel()
        done, _ = await asyncio.wait([self.task], timeout=DEADLINE_S)
        assert done, "the cancellation was swallowed"
        assert self.task.cancelled()


@pytest.mark.parametrize("steps", STEPS)
async def test_cancelled_while_it_starts(sockets: Path, steps: int) -> None:
    for number in range(TIMES):
        path = sockets / f"{number}.sock"
        serving = Serving(path)
        await serving.begins.wait()
        await serving.cancelled_after(steps)
        assert not path.exists()


@pytest.mark.parametrize("steps", STEPS)
async def test_cancelled_while_it_ends(sockets: Path, steps: int) -> None:
    for _ in range(TIMES):
        serving = Serving(sockets / "s.sock")
        await serving.ends.wait()
        for _ in range(4):
            await asyncio.sleep(0)
        _let_threads_finish()
        await serving.cancelled_after(steps)


def _let_threads_finish() -> None:
    """So that only steps of our loop are left, of which none is taken meanwhile."""
    time.sleep(0.01)
