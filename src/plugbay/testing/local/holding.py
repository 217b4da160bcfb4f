"""Async context managers that a task of their own keeps open, so that any task may close them.

A task group, or a timeout, has to be left by the task that entered it; a test may open a kubelet in one task and
restart it in another.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Held(Generic[Value]):
    """Made by `hold`; ``value`` is what the context manager gave."""

    def __init__(self, value: Value, closing: asyncio.Event, task: asyncio.Task[None]) -> None:
        self.value = value
        self._closing = closing
        self._task = task

    async def close(self) -> None:
        """Leave the context manager, and wait until that is done. Harmless twice."""
        self._closing.set()
        await asyncio.wait([self._task])


async def hold(tasks: asyncio.TaskGroup, manager: AbstractAsyncContextManager[Value], *, name: str) -> Held[Value]:
    """Enter ``manager`` in a task of ``tasks``; what entering raises is raised here."""
    closing = asyncio.Event()
    opened: asyncio.Future[Value] = asyncio.get_running_loop().create_future()
    task = tasks.create_task(_keep(manager, opened, closing), name=name)
    try:
        await asyncio.wait([opened])
    except asyncio.CancelledError:
        closing.set()
        task.cancel()
        raise
    return Held(opened.result(), closing, task)


async def _keep(
    manager: AbstractAsyncContextManager[Value], opened: asyncio.Future[Value], closing: asyncio.Event
) -> None:
    try:
        async with manager as value:
            opened.set_result(value)
            await closing.wait()
    except Exception as error:
        if opened.done():
            raise
        opened.set_exception(_only(error))


def _only(error: Exception) -> Exception:
    """The error itself, if it is all that a group holds."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
