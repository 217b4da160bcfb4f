"""Questions that go from GPU to GPU: a GPU of which the driver dies is left out for a while, and costs no other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from plugbay.errors import DriverUnusable
from plugbay.plugins.nvidia.nvml.resting import DEADLY, RestingSubjects

SURVEY: Final = "survey"
"""The question that describes each GPU: one of which the driver dies then is not asked about at all."""
Place: TypeAlias = tuple[int, int]
"""The index of a GPU, and the number of GPUs: the driver numbers them anew when one is gone."""


@dataclass(slots=True)
class RoundProgress:
    """The GPU that a question has come to; None before the first one."""

    place: Place | None = None


Ask: TypeAlias = Callable[[tuple[Place, ...], RoundProgress], Awaitable[Any]]
"""Asks a question once, without the GPUs that it is given, and keeps the progress up to date."""


class GpuRounds:
    """Asks such questions, and knows the GPUs of which the driver died.

    Args:
        rest_s: how long a GPU is left out at first; each further time it is twice as long.
    """

    def __init__(self, rest_s: float) -> None:
        self._rest_s = rest_s
        self.forgive()

    async def ask(self, question: str, ask: Ask) -> Any:
        """The answer to a question. If the driver dies of one GPU, it is asked again, and at last without that GPU.

        A driver that dies of a second GPU as well, or of the only one, is taken to be the culprit itself.

        Raises:
            DriverUnusable, DriverCallFailed: as ``ask``.
        """
        sick: Place | None = None
        out: tuple[Place, ...] = ()
        while True:
            progress = RoundProgress()
            try:
                return await self.ask_once(question, ask, out, progress)
            except DriverUnusable as error:
                place = progress.place
                if error.reason not in DEADLY or place is None or place[1] == 1:
                    raise
                if out or sick not in (None, place):
                    raise  # of a second GPU, or also without it
                out = () if sick is None else (place,)
                sick = place

    async def ask_once(
        self, question: str, ask: Ask, out: tuple[Place, ...] = (), progress: RoundProgress | None = None
    ) -> Any:
        """The answer to a question; a death of the driver is noted against the GPU that it had come to.

        Args:
            out: further GPUs to be left out.
            progress: to be kept up to date; None for a new one.
        """
        now = asyncio.get_running_loop().time
        progress = progress or RoundProgress()
        left_out = _but_not_all({*self._left_out(question, now()), *out})
        try:
            answer = await ask(left_out, progress)
        except DriverUnusable as error:
            if progress.place is not None:
                self._resting.died((question, progress.place), error.reason, now())
            raise
        for subject in self._resting.known:
            if subject[0] == question and subject[1] not in left_out:
                self._resting.answered(subject)
        return answer

    def forgive(self) -> None:
        """Leave no GPU out any more: the driver is another one, or an operator wants to know."""
        self._resting: RestingSubjects[tuple[str, Place]] = RestingSubjects(self._rest_s)

    def _left_out(self, question: str, now: float) -> Iterator[Place]:
        """The GPUs to be left out: those that rest, and those that the survey died of and has not read since."""
        for which, place in self._resting.known:
            is_unread = question != SURVEY and which == SURVEY and self._resting.is_to_blame((which, place))
            if is_unread or (which == question and self._resting.is_resting((which, place), now)):
                yield place


def _but_not_all(places: Collection[Place]) -> tuple[Place, ...]:
    """These GPUs; none of them where no other would be left to ask about."""
    numbers = Counter(count for _, count in places)
    return tuple(place for place in places if numbers[place[1]] < place[1])
