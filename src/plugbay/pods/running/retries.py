"""The waits between two tries of what a pod needs."""

from __future__ import annotations

import asyncio

from plugbay.ops.clock import Clock
from plugbay.ops.tasks import first


class Retries:
    """Waits of one pod's work. A kubelet tries all of it again with each sync of the pod; so does `wake`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._woken = asyncio.Event()

    @property
    def moment(self) -> asyncio.Event:
        """The time until the next `wake`; ask for it before a try."""
        return self._woken

    async def pause(self, seconds: float, *, since: asyncio.Event | None = None) -> None:
        """Return after ``seconds``, or at the next `wake`: also one that came before, but after ``since``."""
        await first(self._clock.sleep(seconds), (since or self._woken).wait())

    def wake(self) -> None:
        """End every wait that is under way."""
        self._woken.set()
        self._woken = asyncio.Event()
