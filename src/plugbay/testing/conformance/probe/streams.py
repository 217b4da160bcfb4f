"""Two streams of one plugin, and which of them has a change.

A plugin may tell one of its open streams only: the oldest, the newest, or each in its turn. So a change is listed when
either stream has it, and a stream that missed a change tells nothing when the device is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from plugbay.model.ids import DeviceId
from plugbay.testing.conformance.probe.meeting import Meeting, SeenList
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class AwaitedChange:
    """A change that a stream has not listed yet; made before the device is changed.

    Attributes:
        stream: the stream.
        device: the device that changes.
        is_back: whether it becomes healthy; else it stops to be healthy.
        lists_before: the number of lists before the change.
        was_so_before: whether the device was so in the newest of them, because the stream missed an earlier change.
        was_open: whether the stream was open before the change.
    """

    stream: Meeting
    device: str
    is_back: bool
    lists_before: int
    was_so_before: bool
    was_open: bool

    @property
    def listed(self) -> SeenList | None:
        """The first list with the change; None before there is one."""
        later = self.stream.lists[self.lists_before :]
        return next((each for each in later if (self.device in each.healthy) is self.is_back), None)

    @property
    def is_missed(self) -> bool:
        """Whether the stream has the device as it was, which the change made untrue."""
        return self.listed is None and not self.was_so_before

    async def until_listed(self, timeout_s: float) -> bool:
        """Wait for `listed`; False if the stream ends or the time is over before."""
        return await self.stream.until(lambda: self.listed is not None, timeout_s)


class StreamPair:
    """Used through `two_streams`.

    Attributes:
        first: the kubelet's own stream.
        second: the one that was opened beside it.
    """

    def __init__(self, first: Meeting, second: Meeting) -> None:
        self.first = first
        self.second = second

    @property
    def healthy(self) -> tuple[DeviceId, ...]:
        """The healthy devices of the newest list, which may have come on either stream."""
        lists = [each.lists[-1] for each in (self.first, self.second) if each.lists]
        return max(lists, key=lambda each: each.at).healthy if lists else ()

    def awaiting(self, device: str, *, is_back: bool) -> tuple[AwaitedChange, AwaitedChange]:
        """The change that both streams have to list when ``device`` is changed now."""
        return _awaited(self.first, device, is_back=is_back), _awaited(self.second, device, is_back=is_back)


def _awaited(stream: Meeting, device: str, *, is_back: bool) -> AwaitedChange:
    was_so = bool(stream.lists) and (device in stream.healthy) is is_back
    return AwaitedChange(stream, device, is_back, len(stream.lists), was_so, not stream.ended.is_set())


async def first_listed(awaited: Sequence[AwaitedChange], timeout_s: float) -> SeenList | None:
    """Wait until one of the streams has its change; None if all end before, or the time is over."""
    async with asyncio.TaskGroup() as tasks:
        waits = [tasks.create_task(each.until_listed(timeout_s)) for each in awaited]
        for wait in asyncio.as_completed(waits):
            if await wait:
                break
        for each in waits:
            each.cancel()
    return min((each.listed for each in awaited if each.listed is not None), key=lambda each: each.at, default=None)


@asynccontextmanager
async def two_streams(first: Meeting, second: Meeting, timeout_s: float) -> AsyncIterator[StreamPair]:
    """Follow ``second`` beside ``first``, which is followed already, once it has a list or the time is over."""
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(second.follow())
        try:
            await second.until_listed(timeout_s)
            yield StreamPair(first, second)
        finally:
            following.cancel()
