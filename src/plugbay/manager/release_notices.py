"""Failed PostStopContainer and Deallocate calls, told to whoever keeps the events of pods."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from plugbay.manager.operations import OperationKind
from plugbay.model.ids import ContainerName, PodUid

MAX_NOTICES: Final = 1000
"""Of failed calls that nobody has read; the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class ReleaseNotice:
    """A call failed; for an event on the pod.

    Attributes:
        container: empty when it is about the whole pod.
    """

    pod: PodUid
    container: ContainerName
    kind: OperationKind
    message: str


class ReleaseNotices:
    """The newest notices, for one reader."""

    def __init__(self) -> None:
        self._notices: deque[ReleaseNotice] = deque(maxlen=MAX_NOTICES)
        self._filled = asyncio.Event()

    def put(self, notice: ReleaseNotice) -> None:
        self._notices.append(notice)
        self._filled.set()

    async def __aiter__(self) -> AsyncIterator[ReleaseNotice]:
        while True:
            await self._filled.wait()
            while self._notices:
                yield self._notices.popleft()
            self._filled.clear()
