"""Work beside other work, and which of it ends the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

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


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None], *, name: str) -> AsyncIterator[None]:
    """Run ``work`` beside the block; it is cancelled at the block's end, and ends the block if it fails."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work, name=name)
        try:
            yield
        finally:
            task.cancel()


async def run_until(stop: asyncio.Event, work: Coroutine[Any, Any, object]) -> None:
    """Run ``work`` to its end, or cancel it when ``stop`` is set."""
    await race(work, stop.wait())


async def race(*works: Coroutine[Any, Any, object]) -> None:
    """Run all until the first has ended; the others are cancelled."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(work) for work in works]
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in running:
            task.cancel()
