"""Questions to the driver that the plugin can do without: they wait no longer than wanted, and rest when it dies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from plugbay.errors import DriverCallFailed, DriverUnusable
from plugbay.plugins.nvidia.nvml.resting import RestingSubjects
from plugbay.plugins.nvidia.nvml.troubles import DriverTrouble

Answer = TypeVar("Answer")


class DispensableQuestions:
    """The questions that are being asked, and those that the driver dies of, which it is not asked for a while.

    A question goes on to its answer or its own deadline when nobody waits for it any more: only so is it known that the
    driver hangs, and the worker killed. All that ask meanwhile wait for the same answer.
    """

    def __init__(self) -> None:
        self._resting: RestingSubjects[str] = RestingSubjects()
        self._asked: dict[str, asyncio.Task[Any]] = {}

    async def answer(
        self, subject: str, ask: Callable[[], Awaitable[Answer]], *, within_s: float | None = None
    ) -> Answer:
        """The driver's answer.

        Args:
            subject: words for messages, by which the question is known.
            within_s: the time to wait; None for as long as it takes.

        Raises:
            DriverUnusable, DriverCallFailed: there is no answer, or not in time, or the driver is not asked for now.
        """
        asking = self._asked.get(subject)
        if asking is None:
            if self._resting.is_resting(subject, asyncio.get_running_loop().time()):
                problem = f"the driver is not asked for {subject} for some time: it hung or crashed each time"
                raise DriverUnusable(DriverTrouble.HUNG.value, problem, 0)
            asking = asyncio.create_task(self._ask(subject, ask), name=f"ask for {subject}")
            asking.add_done_callback(lambda done: self._end(subject, done))
            self._asked[subject] = asking
        await asyncio.wait({asking}, timeout=within_s)
        if not asking.done():
            problem = f"the driver has not answered within {within_s:g} s when asked for {subject}"
            raise DriverUnusable(DriverTrouble.SLOW.value, problem, 0)
        answer: Answer = asking.result()
        return answer

    async def close(self) -> None:
        """End all questions."""
        for asking in tuple(self._asked.values()):
            asking.cancel()
            await asyncio.wait({asking})

    async def _ask(self, subject: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        clock = asyncio.get_running_loop().time
        try:
            answer = await ask()
        except DriverUnusable as error:
            self._resting.died(subject, error.reason, clock())
            raise
        except DriverCallFailed:
            self._resting.answered(subject)
            raise
        self._resting.answered(subject)
        return answer

    def _end(self, subject: str, asking: asyncio.Task[Any]) -> None:
        del self._asked[subject]
        if not asking.cancelled():
            asking.exception()  # perhaps nobody waits for it any more
