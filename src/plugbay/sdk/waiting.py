"""Waiting for the first of several things."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def wait_first(*waits: Callable[[], Coroutine[Any, Any, object]], timeout_s: float | None = None) -> bool:
    """Wait until one of ``waits`` is over, and cancel the others; returns False when ``timeout_s`` passed first."""
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(wait()) for wait in waits]
        done, pending = await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
    return bool(done)
