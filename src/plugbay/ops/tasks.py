"""Work that is not to be left half done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Result = TypeVar("Result")


async def uninterrupted(tasks: asyncio.TaskGroup, work: Callable[[], Awaitable[Result]]) -> Result:
    """The result of ``work``, which is finished also when the caller is cancelled meanwhile."""

    async def outcome() -> Result | Exception:
        try:
            return await work()
        except Exception as error:  # handed to the caller; here it would end the whole group
            return error

    task = tasks.create_task(outcome())
    try:
        result = await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
    if isinstance(result, Exception):
        raise result
    return result
