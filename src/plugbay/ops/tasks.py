"""Waits for tasks: for the first of several, for the end whatever happens, beside a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
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


@contextmanager
def ungrouped() -> Iterator[None]:
    """Let the only error of a group that would end the block end it as itself: callers know it by its class."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from error.__cause__


async def first(*works: Coroutine[Any, Any, object], timeout_s: float | None = None) -> bool:
    """Run all ``works`` until the first has ended, and cancel the others; False if ``timeout_s`` passed before."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(work) for work in works]
        done, pending = await asyncio.wait(running, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
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
