"""Work that is not to be left half done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Result = TypeVar("Result")


async def uninterrupted(tasks: asyncio.TaskGroup, work: Callable[[], Awaitable[Result]]) -> Result:
    """The result of ``work``, which is finished also when the caller is cancelled meanwhile."""

    outcome: asyncio.Future[Result | Exception] = asyncio.get_running_loop().create_future()

    async def finish() -> None:
        result: Result | Exception
        try:
            result = await work()
        except Exception as error:  # handed to the caller; here it would end the whole group
            result = error
        if not outcome.done():  # else the caller was cancelled
            outcome.set_result(result)

    task = tasks.create_task(finish())
    task.add_done_callback(lambda _: outcome.cancel())  # if it was cancelled, even before its first step
    try:
        result = await outcome
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
    if isinstance(result, Exception):
        raise result
    return result
