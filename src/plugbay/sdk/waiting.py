"""Waiting for the first of several things, or for something that nothing can stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def wait_first(*waits: Callable[[], Coroutine[Any, Any, object]], timeout_s: float | None = None) -> bool:
    """Wait until one of ``waits`` is over, and cancel the others; returns False when ``timeout_s`` passed first."""
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(wait()) for wait in waits]
        done, pending = await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
    return bool(done)


async def to_the_end(work: Awaitable[Result], *, cancelled: Callable[[], object] | None = None) -> Result:
    """The result of ``work``, which a thread does for instance; when cancelled, raises so only after its end.

    Args:
        cancelled: called when this is cancelled, to hurry the work.
    """
    outcome = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(outcome)
    except asyncio.CancelledError:
        if cancelled is not None:
            cancelled()
        await asyncio.wait([outcome])
        raise
