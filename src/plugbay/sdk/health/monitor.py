"""Runs a plugin's health checks, each in rounds, and keeps what they say."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, NoReturn, Protocol

from plugbay.model.devices import Device
from plugbay.model.health import Health, unknown
from plugbay.model.ids import DeviceId
from plugbay.ops.backoff import RETRIES, Backoff
from plugbay.ops.workers import Answer, Died, Raised, Returned, TimedOut, Worker
from plugbay.sdk.author.checks import CheckScope, HealthCheck, Isolation
from plugbay.sdk.author.problems import definition_of, problem_of
from plugbay.sdk.discovery.listing import Listing
from plugbay.sdk.health.judging import UNJUDGED, Judgement, judge, verdict_of, verdicts_of
from plugbay.sdk.hooks.calls import call

logger = logging.getLogger(__name__)

AT_ONCE: Final = 8
"""The number of devices that one check looks at together; more would mean as many threads."""
LEAST_ALLOWED_BYTES: Final = 128 << 20
"""The memory that an isolated check may always use; it may also use twice what its process had after the first call."""
RAISED_TOO_OFTEN: Final = 16
"""The number of raising calls in a row after which the process of an isolated check is taken for the cause."""


class Asking(Protocol):
    """Call a check once; returns its answer, or why there is none."""

    async def __call__(self, key: str, *arguments: object) -> Returned | Health: ...


class HealthMonitor:
    """Runs one check over the devices there are.

    Raises:
        CannotIsolate: it is to run in a process of its own and cannot.
    """

    def __init__(self, check: HealthCheck, listing: Listing) -> None:
        self._check = check
        self._listing = listing
        self._place = definition_of(check.function)
        self._judgements: dict[DeviceId, Judgement] = {}
        self._devices_changed = asyncio.Event()
        # Made at once, so that a plugin that cannot be isolated is refused before anything is served.
        self._worker = Worker(check.function) if check.settings.isolation is Isolation.PROCESS else None
        listing.add_judge(self)

    def health_of(self, device: DeviceId) -> Health:
        return self._judgements.get(device, UNJUDGED).health

    def devices_changed(self) -> None:
        """Forget devices that are gone, and look at new ones soon."""
        devices = self._listing.devices
        self._judgements = {each: held for each, held in self._judgements.items() if each in devices}
        self._devices_changed.set()

    async def run(self) -> NoReturn:
        """Check in rounds until cancelled; new devices need not wait for the next one."""
        loop = asyncio.get_running_loop()
        async with self._asking() as ask:
            while True:
                await self._look_at(list(self._listing.devices.values()), ask)
                due = loop.time() + self._check.settings.every_s
                while await self._is_changed_before(due):
                    devices = self._listing.devices.values()
                    new = [device for device in devices if device.id not in self._judgements]
                    await self._look_at(new, ask)

    async def look_once(self) -> None:
        """Check all devices one time."""
        async with self._asking() as ask:
            await self._look_at(list(self._listing.devices.values()), ask)

    async def _is_changed_before(self, due: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(due):
                await self._devices_changed.wait()
        is_changed = self._devices_changed.is_set()
        self._devices_changed.clear()
        return is_changed

    async def _look_at(self, devices: Sequence[Device], ask: Asking) -> None:
        if not devices:
            return
        if self._check.scope is CheckScope.ALL:
            moment = self._listing.moment()
            ids = [device.id for device in devices]
            match await ask(""):
                case Returned(value):
                    verdicts = verdicts_of(value, list(ids), self._place)
                    self._hear({each: verdicts[each] for each in ids}, moment)
                case problem:
                    self._hear(dict.fromkeys(ids, problem), moment)
            return
        width = 1 if self._worker is not None else AT_ONCE
        queue = iter(devices)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(width, len(devices))):
                tasks.create_task(self._look_at_each(queue, ask))

    async def _look_at_each(self, queue: Iterator[Device], ask: Asking) -> None:
        for device in queue:
            moment = self._listing.moment()
            answer = await ask(device.id, device)
            if isinstance(answer, Returned):
                answer = verdict_of(answer.value, self._place)
            self._hear({device.id: answer}, moment)

    def _hear(self, verdicts: Mapping[DeviceId, Health], moment: int) -> None:
        settings, devices = self._check.settings, self._listing.devices
        for each, verdict in verdicts.items():
            if each in devices:
                before = self._judgements.get(each, UNJUDGED)
                self._judgements[each] = judge(before, verdict, fall=settings.fall, rise=settings.rise)
        healthy = (each for each, verdict in verdicts.items() if verdict.is_healthy)
        self._listing.judged(healthy, moment=moment, why=f"health check {self._check.name}")

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[Asking]:
        if self._worker is not None:
            async with self._worker as worker:
                yield _Isolated(worker, self._check)
        else:
            async with _in_process(self._check) as ask:
                yield ask


@asynccontextmanager
async def _in_process(check: HealthCheck) -> AsyncIterator[Asking]:
    async with asyncio.TaskGroup() as tasks:
        asking = _InProcess(check, tasks)
        try:
            yield asking
        finally:
            asking.cancel()


class _InProcess:
    """Calls the check here. A call that hangs is waited for by later ones, not repeated beside it."""

    def __init__(self, check: HealthCheck, tasks: asyncio.TaskGroup) -> None:
        self._check = check
        self._tasks = tasks
        self._running: dict[str, asyncio.Task[Returned | Health]] = {}

    async def __call__(self, key: str, *arguments: object) -> Returned | Health:
        task = self._running.get(key)
        if task is None or task.done():  # what came too late is too old by now
            task = self._running[key] = self._tasks.create_task(self._call(*arguments))
        done, _ = await asyncio.wait((task,), timeout=self._check.settings.timeout_s)
        if not done:
            if inspect.iscoroutinefunction(self._check.function):
                task.cancel()
            return timed_out(self._check)
        del self._running[key]
        return task.result()

    async def _call(self, *arguments: object) -> Returned | Health:
        try:
            return Returned(await call(self._check.function, *arguments))
        except Exception as error:  # an author's code may raise anything
            return raised(problem_of(error))

    def cancel(self) -> None:
        for task in self._running.values():
            task.cancel()


class _Isolated:
    """Calls the check in its worker. A worker that ended starts again after a growing delay.

    One that leaks is replaced: when its memory has grown too much, and when the check raised several times in a row,
    which is what a process without free descriptors does.
    """

    def __init__(self, worker: Worker, check: HealthCheck) -> None:
        self._worker = worker
        self._check = check
        self._backoff = Backoff(RETRIES)
        self._is_down = False
        self._allowed_bytes = 0
        self._raised = 0

    async def __call__(self, key: str, *arguments: object) -> Returned | Health:
        if self._is_down:
            await asyncio.sleep(self._backoff.next_delay_s())
            self._allowed_bytes = 0
        answer = await self._worker.call(*arguments, timeout_s=self._check.settings.timeout_s)
        self._is_down = self._worker.pid is None
        if not self._is_down:
            self._backoff.reset()
            await self._replace_if_it_leaks(answer)
        match answer:
            case Returned():
                return answer
            case Raised(problem):
                return raised(problem)
            case TimedOut():
                return timed_out(self._check)
            case Died(how):
                return unknown("CheckCrashed", f"the process of its health check {how}")

    async def _replace_if_it_leaks(self, answer: Answer) -> None:
        size = self._worker.rss_bytes
        self._allowed_bytes = self._allowed_bytes or max(LEAST_ALLOWED_BYTES, 2 * size)
        self._raised = self._raised + 1 if isinstance(answer, Raised) else 0
        if size > self._allowed_bytes:
            logger.warning(
                "the process of health check %s has grown to %d MiB; starting another", self._check.name, size >> 20
            )
        elif self._raised < RAISED_TOO_OFTEN:
            return
        await self._worker.recycle()
        self._allowed_bytes = self._raised = 0


def timed_out(check: HealthCheck) -> Health:
    return unknown("CheckTimedOut", f"its health check took more than {check.settings.timeout_s:g} s")


def raised(problem: str) -> Health:
    return unknown("CheckRaised", problem)
