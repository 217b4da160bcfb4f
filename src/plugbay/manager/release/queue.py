"""The operations that are not over, in order.

For each device first come, first served, one call at a time: so PostStopContainer of an instance comes before that of
the next one, and before Deallocate. Different devices go side by side. Source: spec 12.5, 12.6.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta

from plugbay.manager.config import ReleaseLimits
from plugbay.model.ids import DeviceId, PodUid, ResourceName
from plugbay.model.releases import Operation, OperationId, OperationKind
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import first


class Pending:
    """One operation in the queue.

    Attributes:
        operation: as it is now; attempts change it.
        deadline: when it is given up, by the monotonic clock.
        attempted: set after its first attempt failed, and when it is over.
        over: set when it is over.
        woken: set when something has changed that may let it go on.
        abandoned: set when no further attempt shall be made.
    """

    def __init__(self, operation: Operation, *, deadline: float) -> None:
        self.operation = operation
        self.deadline = deadline
        self.attempted = asyncio.Event()
        self.over = asyncio.Event()
        self.woken = asyncio.Event()
        self.abandoned = asyncio.Event()

    @property
    def key(self) -> tuple[OperationKind, ResourceName]:
        return self.operation.kind, self.operation.resource

    def abandon(self) -> None:
        """Make no further attempt; one under way is broken off."""
        self.abandoned.set()
        self.woken.set()

    def end(self) -> None:
        """Tell those that wait for it: it is over, with all that follows from it."""
        self.attempted.set()
        self.over.set()


class ReleaseQueue:
    """Knows whose turn it is, and waits for operations; it makes no call itself."""

    def __init__(self, limits: ReleaseLimits, *, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._pending: dict[OperationId, Pending] = {}
        self._by_pod: dict[PodUid, dict[OperationId, Pending]] = {}
        self._lines: dict[tuple[ResourceName, DeviceId], deque[Pending]] = {}

    def __iter__(self) -> Iterator[Pending]:
        return iter(tuple(self._pending.values()))

    def of_pod(self, pod: PodUid, kind: OperationKind) -> list[Pending]:
        return [each for each in self._by_pod.get(pod, {}).values() if each.operation.kind is kind]

    def pending(self) -> Counter[tuple[OperationKind, ResourceName]]:
        """How many operations are not over."""
        return Counter(each.key for each in self)

    def put(self, operation: Operation) -> Pending:
        """Add an operation behind those that are about one of its devices."""
        deadline = self._clock.monotonic() + patience_s(operation, self._limits, self._clock.now())
        pending = Pending(operation, deadline=deadline)
        self._pending[operation.id] = pending
        self._by_pod.setdefault(operation.pod, {})[operation.id] = pending
        for line in _lines_of(operation):
            self._lines.setdefault(line, deque()).append(pending)
        return pending

    def remove(self, pending: Pending) -> None:
        """Drop an operation that is over, and wake those that now come first."""
        operation = pending.operation
        del self._pending[operation.id]
        del self._by_pod[operation.pod][operation.id]
        if not self._by_pod[operation.pod]:
            del self._by_pod[operation.pod]
        for line in _lines_of(operation):
            self._lines[line].remove(pending)
            if self._lines[line]:
                self._lines[line][0].woken.set()
            else:
                del self._lines[line]

    def is_first(self, pending: Pending) -> bool:
        """Whether no earlier operation is about one of its devices."""
        return all(self._lines[line][0] is pending for line in _lines_of(pending.operation))

    def wake(self, resource: ResourceName) -> None:
        """Wake the resource's operations: its active plugin has changed."""
        for each in self:
            if each.operation.resource == resource:
                each.woken.set()

    async def wait(self, awaited: Collection[tuple[Pending, asyncio.Event]]) -> list[Pending]:
        """Wait for the events, all together no longer than the limit of waits; returns those still missing then."""
        if awaited and self._limits.wait_s:
            await first(self._clock.sleep(self._limits.wait_s), _all([event for _, event in awaited]))
        return [each for each, event in awaited if not event.is_set()]


def patience_s(operation: Operation, limits: ReleaseLimits, now: datetime) -> float:
    """Seconds from the moment at which the manager takes up an operation until it gives it up.

    The clock may have been set, or the machine been off, since the operation was due. So it gets at most its whole
    time, and at least the time in which a plugin comes back and answers.
    """
    left_s = (operation.due + timedelta(seconds=limits.max_age_s) - now).total_seconds()
    return min(max(left_s, limits.wait_s), limits.max_age_s)


def _lines_of(operation: Operation) -> list[tuple[ResourceName, DeviceId]]:
    return [(operation.resource, device_id) for device_id in operation.devices]


async def _all(events: Iterable[asyncio.Event]) -> None:
    for event in events:
        await event.wait()
