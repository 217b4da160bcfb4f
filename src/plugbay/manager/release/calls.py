"""Calls to plugins until each is confirmed: attempts, back-off, and the end of patience.

Source: spec 12.5, 12.6, 12.8.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from plugbay.errors import RpcCode, RpcFailed, StoreUnusable
from plugbay.manager.config import ReleaseLimits
from plugbay.manager.crash_points import CrashPoint, passed
from plugbay.manager.endpoint import ConnectedPlugins, Endpoint
from plugbay.manager.release.notices import ReleaseNotices
from plugbay.manager.release.queue import Pending, ReleaseQueue
from plugbay.manager.release.rules import ReleaseVerdict, verdict_of
from plugbay.manager.state import Live, ManagerState
from plugbay.manager.store.commits import Change, DeleteOperations, SaveOperation
from plugbay.manager.store.store import RETRY_S, Store
from plugbay.model.ids import ResourceName
from plugbay.model.releases import Operation, OperationKind, is_asked_for, without
from plugbay.ops.backoff import OPERATIONS
from plugbay.ops.clock import Clock
from plugbay.ops.metrics import Histogram
from plugbay.ops.tasks import first

logger = logging.getLogger(__name__)

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds; a call takes no longer than its deadline."""
_CRASH_POINTS: Final = {
    OperationKind.POST_STOP: (CrashPoint.CALLING_POST_STOP, CrashPoint.CALLED_POST_STOP),
    OperationKind.DEALLOCATE: (CrashPoint.CALLING_DEALLOCATE, CrashPoint.CALLED_DEALLOCATE),
}


class Outcome(Enum):
    """How an operation ended."""

    CONFIRMED = "confirmed"
    UNWANTED = "unwanted"
    """The plugin does not want such calls, or no longer wants them."""
    REFUSED = "refused"
    EXHAUSTED = "exhausted"
    ABANDONED = "abandoned"
    """The call came too late to be made at all."""


@dataclass(slots=True)
class ReleaseCounts:
    """Numbers of the calls that end a use, for metrics; spec 12.10 names the metrics.

    Attributes:
        durations: by call, resource and status code in the words of Go: ``OK``, ``DeadlineExceeded``.
        exhausted: calls that were given up.
    """

    durations: dict[tuple[OperationKind, ResourceName, str], Histogram] = field(default_factory=dict)
    exhausted: Counter[tuple[OperationKind, ResourceName]] = field(default_factory=Counter)

    def called(self, kind: OperationKind, resource: ResourceName, code: str, seconds: float) -> None:
        self.durations.setdefault((kind, resource, code), Histogram(BUCKETS_S)).observe(seconds)


class ReleaseCalls:
    """Makes the calls for the operations of a queue."""

    def __init__(
        self,
        limits: ReleaseLimits,
        *,
        queue: ReleaseQueue,
        connected: ConnectedPlugins,
        notices: ReleaseNotices,
        state: ManagerState,
        store: Store,
        clock: Clock,
    ) -> None:
        self._limits = limits
        self._queue = queue
        self._connected = connected
        self._notices = notices
        self._state = state
        self._store = store
        self._clock = clock
        self.counts = ReleaseCounts()

    async def carry_out(self, pending: Pending, *, records: tuple[Change, ...]) -> Outcome:
        """Make an operation's call until it is over, durably: after a crash it is not repeated.

        Args:
            records: what has to be durable before the first attempt; empty if it is already.
        """
        if records:
            passed(CrashPoint.QUEUING)
            await self._save(records)
            passed(CrashPoint.QUEUED)
        outcome = await self._until_over(pending)
        passed(CrashPoint.SETTLING)
        # Before its devices are free: repeated later, the call could be about devices that another pod uses.
        while not await self._save((DeleteOperations((pending.operation.id,)),)):
            await self._clock.sleep(RETRY_S)
        passed(CrashPoint.SETTLED)
        return outcome

    async def _until_over(self, pending: Pending) -> Outcome:
        while True:
            pending.woken.clear()
            if pending.abandoned.is_set():
                return Outcome.ABANDONED
            left_s = self._left_s(pending)
            if left_s == 0:
                return self._give_up(pending.operation)
            endpoint = self._connected.active(pending.operation.resource) if self._queue.is_first(pending) else None
            if endpoint is None:
                await first(self._clock.sleep(left_s), pending.woken.wait())
                continue
            match await self._try(pending, endpoint):
                case None:
                    continue
                case ReleaseVerdict.DONE:
                    return Outcome.CONFIRMED
                case ReleaseVerdict.UNSUPPORTED:
                    return Outcome.UNWANTED
                case ReleaseVerdict.REFUSED:
                    return Outcome.REFUSED
                case ReleaseVerdict.RETRY:
                    pending.attempted.set()
                    await first(self._clock.sleep(self._delay_s(pending)), pending.woken.wait())

    def _left_s(self, pending: Pending) -> float:
        """Seconds until the operation is given up; 0 when it is given up now."""
        if pending.operation.attempts >= self._limits.max_attempts:
            return 0.0
        return max(0.0, pending.deadline - self._clock.monotonic())

    def _delay_s(self, pending: Pending) -> float:
        """Seconds from a failed attempt to the next one, or to the end of patience."""
        return min(OPERATIONS.after(pending.operation.attempts), self._left_s(pending))

    async def _try(self, pending: Pending, endpoint: Endpoint) -> ReleaseVerdict | None:
        """Make one attempt; None when there was none, or it was broken off, because things have changed."""
        verdict: ReleaseVerdict | None = None

        async def attempt() -> None:
            nonlocal verdict
            async with endpoint.release_slots:
                if self._connected.active(pending.operation.resource) is not endpoint:
                    return
                if is_asked_for(pending.operation.kind, endpoint.options):
                    verdict = await self._call(pending, endpoint)
                else:
                    verdict = ReleaseVerdict.UNSUPPORTED

        await first(attempt(), pending.abandoned.wait())
        return verdict

    async def _call(self, pending: Pending, endpoint: Endpoint) -> ReleaseVerdict:
        operation = pending.operation
        before, after = _CRASH_POINTS[operation.kind]
        error: RpcFailed | None = None
        passed(before)
        started = self._clock.monotonic()
        try:
            await endpoint.release(operation, timeout_s=self._limits.attempt_timeout_s)
        except RpcFailed as failure:
            error = failure
        code = RpcCode.OK if error is None else error.code
        self.counts.called(operation.kind, operation.resource, code.value, self._clock.monotonic() - started)
        passed(after)
        verdict = verdict_of(code)
        if verdict is ReleaseVerdict.UNSUPPORTED:
            self._unsupported(operation, endpoint)
        elif error is not None:
            self._notices.failed(operation, str(error))
        if verdict is ReleaseVerdict.RETRY:
            pending.operation = replace(operation, attempts=operation.attempts + 1)
            await self._save((SaveOperation(pending.operation),))
        return verdict

    def _unsupported(self, operation: Operation, endpoint: Endpoint) -> None:
        """Call the method no more: the plugin lacks it."""
        if not is_asked_for(operation.kind, endpoint.options):
            return  # a call beside this one has learned it before
        logger.warning(
            "plugin of %s asks for %s and has no such method; no such call is made until it registers again",
            operation.resource,
            operation.kind.value,
        )
        endpoint.options = without(operation.kind, endpoint.options)
        resource = self._state.resource(operation.resource)
        if self._connected.active(operation.resource) is endpoint and isinstance(resource.endpoint, Live):
            resource.endpoint = replace(resource.endpoint, options=endpoint.options)
        self._queue.wake(operation.resource)

    def _give_up(self, operation: Operation) -> Outcome:
        self.counts.exhausted[operation.kind, operation.resource] += 1
        self._notices.failed(operation, f"given up after {operation.attempts} attempts")
        return Outcome.EXHAUSTED

    async def _save(self, changes: tuple[Change, ...]) -> bool:
        try:
            await self._store.commit(changes)
        except StoreUnusable as error:
            logger.error("cannot record a call to a plugin, so a restart may repeat it; check the disk: %s", error)
            return False
        return True
