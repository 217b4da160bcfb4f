"""Calls to be made to plugins until each is confirmed: order, attempts, back-off, and the end of patience.

For each device first come, first served, one call at a time: so PostStopContainer of an instance comes before that of
the next one, and before Deallocate. Different devices go side by side. Source: spec 12.5, 12.6, 12.8.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from enum import Enum
from typing import Final, Protocol

from plugbay.errors import RpcFailed, StoreUnusable
from plugbay.manager.commits import Change, DeleteOperations, SaveOperation
from plugbay.manager.effects import Effect, passed
from plugbay.manager.endpoint import Endpoint
from plugbay.manager.operations import Operation, OperationKind, is_asked_for
from plugbay.manager.release_counts import ReleaseCounts
from plugbay.manager.release_rules import ReleaseLimits, Verdict, back_off_s, patience_s, verdict_of
from plugbay.manager.store import Store
from plugbay.model.ids import DeviceId, PodUid, ResourceName
from plugbay.model.releases import OperationId
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import race

logger = logging.getLogger(__name__)

STORE_RETRY_S: Final = 10.0
"""Between two tries to write to a disk that is full or broken."""
_EFFECTS: Final = {
    OperationKind.POST_STOP: (Effect.CALLING_POST_STOP, Effect.CALLED_POST_STOP),
    OperationKind.DEALLOCATE: (Effect.CALLING_DEALLOCATE, Effect.CALLED_DEALLOCATE),
}


class Outcome(Enum):
    """How an operation ended."""

    CONFIRMED = "confirmed"
    UNWANTED = "unwanted"
    """The plugin does not want such calls, or not any more."""
    REFUSED = "refused"
    EXHAUSTED = "exhausted"
    ABANDONED = "abandoned"
    """It came too late to be made at all."""


class QueueOwner(Protocol):
    """Who the queue works for."""

    def active(self, resource: ResourceName) -> Endpoint | None:
        """The plugin to call, if one is connected."""
        ...

    def failed(self, operation: Operation, problem: str) -> None:
        """An attempt failed, or the operation was given up."""
        ...

    def unsupported(self, operation: Operation, endpoint: Endpoint) -> None:
        """The plugin has no such method."""
        ...

    def settled(self, operation: Operation, outcome: Outcome) -> None:
        """The operation is over, durably; nothing of it is in the queue."""
        ...


class Pending:
    """One operation in the queue.

    Attributes:
        operation: as it is now; attempts change it.
        deadline: when it is given up, by the monotonic clock.
        attempted: set after its first attempt failed, and when it is over.
        over: set when it is over.
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


class ReleaseQueue:
    """All operations that are not over, each with a task of its own."""

    def __init__(
        self,
        owner: QueueOwner,
        limits: ReleaseLimits,
        *,
        clock: Clock,
        store: Store,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._owner = owner
        self._limits = limits
        self._clock = clock
        self._store = store
        self._tasks = tasks
        self._pending: dict[OperationId, Pending] = {}
        self._by_pod: dict[PodUid, dict[OperationId, Pending]] = {}
        self._lines: dict[tuple[ResourceName, DeviceId], deque[Pending]] = {}
        self._working: set[asyncio.Task[None]] = set()
        self.counts = ReleaseCounts()

    def __iter__(self) -> Iterator[Pending]:
        return iter(tuple(self._pending.values()))

    def of_pod(self, pod: PodUid, kind: OperationKind) -> list[Pending]:
        return [each for each in self._by_pod.get(pod, {}).values() if each.operation.kind is kind]

    def pending(self) -> Counter[tuple[OperationKind, ResourceName]]:
        """How many operations are not over."""
        return Counter(each.key for each in self)

    def put(self, operation: Operation, *, first: Iterable[Change] = ()) -> None:
        """Have an operation done.

        Args:
            first: what has to be durable before the first attempt; empty if it is already.
        """
        deadline = self._clock.monotonic() + patience_s(operation, self._limits, self._clock.now())
        pending = Pending(operation, deadline=deadline)
        self._pending[operation.id] = pending
        self._by_pod.setdefault(operation.pod, {})[operation.id] = pending
        for line in self._lines_of(operation):
            self._lines.setdefault(line, deque()).append(pending)
        task = self._tasks.create_task(self._work(pending, tuple(first)), name=f"{operation.kind.value} {operation.id}")
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    def wake(self, resource: ResourceName) -> None:
        """The resource's plugin has become another one."""
        for each in self:
            if each.operation.resource == resource:
                each.woken.set()

    async def wait(self, awaited: Collection[tuple[Pending, asyncio.Event]]) -> list[Pending]:
        """Wait for the events, all together no longer than the limit of waits; what has not happened by then."""
        if awaited and self._limits.wait_s:
            async with asyncio.TaskGroup() as tasks:
                limit = tasks.create_task(self._clock.sleep(self._limits.wait_s))
                waits = [tasks.create_task(event.wait()) for _, event in awaited]
                happened = tasks.create_task(_all(waits))
                await asyncio.wait((limit, happened), return_when=asyncio.FIRST_COMPLETED)
                for task in (limit, happened, *waits):
                    task.cancel()
        return [each for each, event in awaited if not event.is_set()]

    async def close(self) -> None:
        """Stop; what is not over is taken up at the next start."""
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)

    # --- one operation ----------------------------------------------------------------------------------------------

    async def _work(self, pending: Pending, first: tuple[Change, ...]) -> None:
        if first:
            passed(Effect.QUEUING)
            await self._save(first)
            passed(Effect.QUEUED)
        outcome = await self._until_over(pending)
        await self._settle(pending, outcome)

    async def _until_over(self, pending: Pending) -> Outcome:
        while True:
            pending.woken.clear()
            if pending.abandoned.is_set():
                return Outcome.ABANDONED
            left_s = self._left_s(pending)
            if left_s == 0:
                return self._give_up(pending.operation)
            endpoint = self._owner.active(pending.operation.resource) if self._is_its_turn(pending) else None
            if endpoint is None:
                await race(self._clock.sleep(left_s), pending.woken.wait())
                continue
            match await self._try(pending, endpoint):
                case None:
                    continue
                case Verdict.DONE:
                    return Outcome.CONFIRMED
                case Verdict.UNSUPPORTED:
                    return Outcome.UNWANTED
                case Verdict.REFUSED:
                    return Outcome.REFUSED
                case Verdict.RETRY:
                    pending.attempted.set()
                    await race(self._clock.sleep(self._delay_s(pending)), pending.woken.wait())

    def _left_s(self, pending: Pending) -> float:
        """Until the operation is given up; 0 when it is now."""
        if pending.operation.attempts >= self._limits.max_attempts:
            return 0.0
        return max(0.0, pending.deadline - self._clock.monotonic())

    def _delay_s(self, pending: Pending) -> float:
        """From a failed attempt to the next one, or to the end of patience."""
        return min(back_off_s(pending.operation.attempts), self._left_s(pending))

    def _is_its_turn(self, pending: Pending) -> bool:
        return all(self._lines[line][0] is pending for line in self._lines_of(pending.operation))

    async def _try(self, pending: Pending, endpoint: Endpoint) -> Verdict | None:
        """One attempt; None when there was none, or it was broken off, because things have changed."""
        verdict: Verdict | None = None

        async def attempt() -> None:
            nonlocal verdict
            async with endpoint.release_slots:
                if self._owner.active(pending.operation.resource) is not endpoint:
                    return
                if is_asked_for(pending.operation.kind, endpoint.options):
                    verdict = await self._call(pending, endpoint)
                else:
                    verdict = Verdict.UNSUPPORTED

        await race(attempt(), pending.abandoned.wait())
        return verdict

    async def _call(self, pending: Pending, endpoint: Endpoint) -> Verdict:
        operation = pending.operation
        before, after = _EFFECTS[operation.kind]
        error: RpcFailed | None = None
        passed(before)
        started = self._clock.monotonic()
        try:
            await endpoint.release(operation, timeout_s=self._limits.attempt_timeout_s)
        except RpcFailed as failure:
            error = failure
        code = "OK" if error is None else error.code
        self.counts.called(operation.kind, operation.resource, code, self._clock.monotonic() - started)
        passed(after)
        verdict = verdict_of(code)
        if verdict is Verdict.UNSUPPORTED:
            self._owner.unsupported(operation, endpoint)
        elif error is not None:
            self._owner.failed(operation, str(error))
        if verdict is Verdict.RETRY:
            pending.operation = replace(operation, attempts=operation.attempts + 1)
            await self._save((SaveOperation(pending.operation),))
        return verdict

    def _give_up(self, operation: Operation) -> Outcome:
        self.counts.exhausted[operation.kind, operation.resource] += 1
        self._owner.failed(operation, f"given up after {operation.attempts} attempts")
        return Outcome.EXHAUSTED

    async def _settle(self, pending: Pending, outcome: Outcome) -> None:
        """First durably: after a crash the call would be repeated, perhaps with somebody else using the devices."""
        passed(Effect.SETTLING)
        while not await self._save((DeleteOperations((pending.operation.id,)),)):
            await self._clock.sleep(STORE_RETRY_S)
        passed(Effect.SETTLED)
        operation = pending.operation
        del self._pending[operation.id]
        del self._by_pod[operation.pod][operation.id]
        if not self._by_pod[operation.pod]:
            del self._by_pod[operation.pod]
        for line in self._lines_of(operation):
            self._lines[line].remove(pending)
            if self._lines[line]:
                self._lines[line][0].woken.set()
            else:
                del self._lines[line]
        self._owner.settled(operation, outcome)
        pending.attempted.set()
        pending.over.set()

    async def _save(self, changes: tuple[Change, ...]) -> bool:
        try:
            await self._store.commit(changes)
        except StoreUnusable as error:
            logger.error("cannot record a call to a plugin: %s", error)
            return False
        return True

    def _lines_of(self, operation: Operation) -> list[tuple[ResourceName, DeviceId]]:
        return [(operation.resource, device_id) for device_id in operation.devices]


async def _all(waits: Iterable[asyncio.Task[object]]) -> None:
    for each in waits:
        await each
