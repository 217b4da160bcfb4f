"""Who has the devices of one resource: what an Allocate has to wait for, and how a use ends.

`sweep` looks for uses that are over while nobody asks; here is what a kubelet's calls bring about.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from plugbay.errors import CannotRelease, CheckpointUnread, DevicesNotReleased, PathUnusable
from plugbay.model.assignments import Assignment, AssignmentKey, Origin
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.model.releases import OperationId
from plugbay.sdk.backoff import Backoff
from plugbay.sdk.calls import call
from plugbay.sdk.plugin import DevicePlugin, offers, resource_of
from plugbay.sdk.release.book import Book
from plugbay.sdk.release.hooks import ReleaseHooks, assignment_of
from plugbay.sdk.release.journal import Journal
from plugbay.sdk.release.owners import with_owners
from plugbay.sdk.release.readings import Readings
from plugbay.sdk.release.settings import DIRECTORY_NAME, ReleasePolicy
from plugbay.sdk.release.sweep import Sweep
from plugbay.sdk.release.uses import Finding, Phase, Reading, Use, after, doubt, find
from plugbay.sdk.waiting import wait_first

if TYPE_CHECKING:
    from plugbay.kubelet.paths import KubeletPaths
    from plugbay.sdk.release.quiet import Shared
    from plugbay.sdk.watching import Watches

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 50.0
"""A kubelet waits for an Allocate without limit, and lets no other pod in meanwhile; our manager waits 60 s."""
MOST_READINGS: Final = 4


class Custody:
    """The uses of one plugin's devices.

    Args:
        hooks: calls the author's hooks, one at a time for each use.
        resend: sends the list of devices again; returns to how many kubelets.

    Attributes:
        book: what is in use.
        has_calls: whether the kubelet of now calls PostStopContainer or Deallocate, as far as is known.
        last: the last reading or why there was none, and when that was, in the event loop's time.
        stirred: set when there may be something in use that was not before, or something to look at soon.
        is_urgent: whether to look soon: a kubelet has restarted, or a release has to be tried again.
        failures: why releases failed, by the use.
    """

    def __init__(
        self, plugin: DevicePlugin, paths: KubeletPaths, shared: Shared, hooks: ReleaseHooks, resend: Callable[[], int]
    ) -> None:
        self.resource: ResourceName = resource_of(plugin)
        directory = shared.settings.directory or paths.device_plugins / DIRECTORY_NAME
        self.book = Book(Journal(Path(directory), self.resource, shared.boot), self.resource)
        self.shared = shared
        self.has_calls = False
        self.last: tuple[str, float] | None = None
        self.stirred = asyncio.Event()
        self.is_urgent = False
        self.failures: dict[AssignmentKey, str] = {}
        self._plugin = plugin
        self._paths = paths
        self._hooks = hooks
        self._resend = resend
        self._readings: Readings | None = None
        self._allocating: set[AssignmentKey] = set()
        self._released: set[DeviceId] = set()
        self._mode = None if plugin.modes is None else plugin.modes.mode(plugin.resource_name)
        self._cleans = offers(plugin, "release")
        self._is_strict = plugin.release_policy is ReleasePolicy.STRICT and self._cleans

    async def open(self, watches: Watches, stopping: asyncio.Event) -> None:
        """Take over what earlier processes have left; waits until it can, or is to stop, if the plugin insists on it.

        Args:
            watches: where to learn of new checkpoints.
        """
        self._readings = Readings(self._paths, self.resource, watches, resend=self._resend)
        backoff = Backoff()
        while not stopping.is_set():
            try:
                await asyncio.to_thread(self.book.open)
                break
            except PathUnusable as error:
                logger.error("%s: %s", self.resource, error)
                if not self._is_strict:
                    return
            await wait_first(stopping.wait, timeout_s=backoff.next_delay_s())
        self._readings.life = self.book.life

    async def run(self) -> None:
        """Look for uses that are over, until cancelled."""
        if self.book.is_open:
            await Sweep(self).run()

    def close(self) -> None:
        self._readings = None
        self.book.close()

    @property
    def allocating(self) -> Collection[AssignmentKey]:
        """The uses whose Allocate is being answered."""
        return self._allocating

    def look_soon(self) -> None:
        self.is_urgent = True
        self.stirred.set()

    @property
    def synthesises(self) -> bool:
        """Whether checkpoints are looked at for uses that are over."""
        return self.shared.settings.source.reads_checkpoints and not self.has_calls

    # --- readings ---------------------------------------------------------------------------------------------------

    async def stream_opened(self) -> None:
        """A kubelet wants the list, and has not got it yet: the moment to see what it began with."""
        if self._readings is None:
            return
        before = self.book.life
        try:
            life = await self._readings.look_at_kubelet(is_first_look=bool(self.book.uses()))
        except CheckpointUnread:
            return
        if before is None or life.id != before.id:
            self.has_calls = False
            with suppress(PathUnusable):  # said when something is given
                self.book.note(life)
            self.look_soon()

    async def read(self, uses: Collection[Use]) -> Reading:
        """What the kubelet says now of ``uses``.

        Raises:
            CheckpointUnread: nothing that can be relied on.
        """
        loop = asyncio.get_running_loop()
        if self._readings is None:
            raise CheckpointUnread("the plugin does not serve")
        try:
            reading = await self._readings.read([use.pod for use in uses if use.pod])
        except CheckpointUnread as error:
            self.last = error.problem, loop.time()
            raise
        self.last = "", loop.time()
        with self.keeping():
            self.book.note(reading.life)
        return reading

    # --- Allocate ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def allocate(self, units: Mapping[DeviceId, DeviceId]) -> AsyncIterator[None]:
        """Around an answer to Allocate: before it, whoever had ``units`` is gone and they are released.

        Args:
            units: as the kubelet names them, each with the device behind it.

        Raises:
            DevicesNotReleased: they are not, or that is not known, and the plugin insists on it.
            PathUnusable: nothing can be kept, and the plugin insists.
        """
        with self.shared.quiet.allocating():
            if stale := self.book.of_units(units):
                await self._clear(stale, units)
            use = self._begin(units)
            try:
                yield
            except Exception:  # refused, so no kubelet assigns them
                self._forget(use)
                raise
            finally:
                # Cancelled: no kubelet gets an answer, so none assigns them; what the hook has begun is to be undone.
                self._released.difference_update(units)
                self.stirred.set()
                if use is not None:
                    self._allocating.discard(use.key)
            if use is not None:
                with self.keeping():
                    self.book.answered(use.key)

    def _begin(self, units: Mapping[DeviceId, DeviceId]) -> Use | None:
        """A use of those of ``units`` that do not go on in the hands of their pod."""
        going_on = {unit for use in self.book.of_units(units) for unit in use.units}
        fresh = {unit: device for unit, device in units.items() if unit not in going_on}
        if not fresh:
            return None
        life = "" if self.book.life is None else self.book.life.id
        with self.keeping():
            use = self.book.begin(fresh, life)
            self._allocating.add(use.key)
            return use
        return None

    def _forget(self, use: Use | None) -> None:
        if use is not None:
            with self.keeping():
                self.book.close_use(use.key)

    async def _clear(self, stale: list[Use], units: Collection[DeviceId]) -> None:
        """See that each of ``stale`` goes on, is released, or is allowed to be neither."""
        for use in stale:
            if use.phase is Phase.RELEASING or (use.phase is Phase.ALLOCATING and use.key not in self._allocating):
                await self._end_in_time(use, units)
        is_open = [use for use in stale if use.phase is Phase.OPEN]
        if not is_open or not self._cleans or not self.shared.settings.source.reads_checkpoints:
            return  # as far as we can know, they go on
        try:
            findings, reading = await self._findings(is_open, units)
        except CheckpointUnread as error:
            for use in is_open:
                self._cannot_clear(use, units, str(error))
            return
        for use in is_open:
            match findings[use.key]:
                case Finding.LISTED:
                    logger.debug("%s: %s go on in their pod", self.resource, ", ".join(use.units))
                case Finding.ABSENT:
                    await self._end_in_time(use, units)
                case Finding.UNPROVEN:
                    self._cannot_clear(use, units, doubt(use, reading))
                case Finding.CONTRADICTORY:
                    self._cannot_clear(use, units, "the kubelet's checkpoint lists some of the devices given together")

    async def _findings(
        self, uses: list[Use], wanted: Collection[DeviceId]
    ) -> tuple[Mapping[AssignmentKey, Finding], Reading]:
        """What the checkpoint says of ``uses``. It takes two readings that agree, but one is enough to show that a use
        is over which an earlier one has listed.

        Raises:
            CheckpointUnread: nothing that can be relied on.
        """
        before: Mapping[AssignmentKey, Finding] = {}
        for _ in range(MOST_READINGS):
            reading = await self.read(uses)
            findings = {use.key: find(use, reading, wanted) for use in uses}
            for use in uses:
                if findings[use.key] is Finding.LISTED:
                    with self.keeping():
                        self.book.change(after(use, reading))
            if all(
                before.get(use.key) is findings[use.key] or (findings[use.key] is Finding.ABSENT and use.seen_in)
                for use in uses
            ):
                return findings, reading
            before = findings
        raise CheckpointUnread(f"{MOST_READINGS} readings of it disagree")

    def _cannot_clear(self, use: Use, units: Collection[DeviceId], problem: str) -> None:
        wanted = [unit for unit in use.units if unit in units]
        if self._is_strict:
            raise DevicesNotReleased(wanted, self.resource, problem)
        with self.keeping():
            if not self.book.lose(use.key, wanted):
                raise DevicesNotReleased(wanted, self.resource, "another process of this plugin releases them")
        logger.warning("%s: %s given without being released: %s", self.resource, ", ".join(wanted), problem)

    async def _end_in_time(self, use: Use, units: Collection[DeviceId]) -> None:
        if not self.book.is_ours:
            self._cannot_clear(use, units, "another process of this plugin is the one that releases")
            return
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.end(use.key, Origin.SYNTHESISED)
        except TimeoutError:
            problem = f"release() takes longer than {PATIENCE_S:g} s; it goes on"
            raise DevicesNotReleased([unit for unit in use.units if unit in units], self.resource, problem) from None
        except Exception as error:  # an author's code may raise anything
            self._cannot_clear(use, units, f"release() failed: {error}")

    # --- the end of a use -------------------------------------------------------------------------------------------

    async def end(self, key: AssignmentKey, origin: Origin) -> None:
        """Have the use released, which is over; returns when it is, and whoever asks meanwhile waits too.

        Raises:
            Exception: what the author's hook raised; it is not released.
        """
        over = self.book.end(key, origin)
        if over is None:
            return
        try:
            await self._hooks.once(OperationId(f"release {key}"), self._release, over.assignment())
        except Exception as error:
            if self.book.get(key) is None:  # for good: it will never work
                logger.warning("%s: %s is not released: %s", self.resource, ", ".join(over.units), error)
                if origin is Origin.KUBELET:
                    raise
                return
            self.failures[key] = str(error)
            raise

    async def _release(self, assignment: Assignment) -> None:
        use = self.book.get(assignment.key)
        if use is None:
            return
        if use.started and offers(self._plugin, "post_stop"):
            await self._stop(use, use.started)
        try:
            if self._cleans:
                await call(self._plugin.release, assignment)
        except CannotRelease:
            self._close(use)
            raise
        self._close(use)
        logger.info("released %s: %s", assignment, "the kubelet says so" if use.origin is Origin.KUBELET else "gone")

    def _close(self, use: Use) -> None:
        self.failures.pop(use.key, None)
        self._released.update(use.units)
        with self.keeping():
            self.book.close_use(use.key)
        if self._mode is not None:
            self._mode.release(use.units)

    async def _stop(self, use: Use, units: Collection[DeviceId]) -> None:
        try:
            await call(self._plugin.post_stop, use.stop_of(units, Origin.SYNTHESISED))
        except CannotRelease as error:
            logger.warning("%s: post_stop() of %s: %s", self.resource, ", ".join(sorted(units)), error)
        self._stopped(use.key, units)

    def _stopped(self, key: AssignmentKey, units: Collection[DeviceId]) -> None:
        if (now := self.book.get(key)) is not None and now.started:
            with self.keeping():
                self.book.change(replace(now, started=now.started.difference(units), stops=now.stops + 1))

    # --- other calls of a kubelet -----------------------------------------------------------------------------------

    async def pre_start(self, units: Collection[DeviceId]) -> None:
        """A container with ``units`` is about to be created: an earlier one that had them has ended."""
        for use in self.book.of_units(units):
            if self.synthesises and offers(self._plugin, "post_stop") and (before := use.started.intersection(units)):
                await self._stop(use, before)

    async def pre_started(self, units: Collection[DeviceId]) -> None:
        """The kubelet is about to learn that the container can be created."""
        for use in self.book.of_units(units):
            started = use.started.union(unit for unit in use.units if unit in units)
            with self.keeping():
                self.book.change(replace(use, started=started))
        if self.synthesises and self.shared.quiet.is_quiet and self._nameless(units):
            pods = await self.shared.pod_lists.pods(newer_than_s=0)
            for use in self._nameless(units):
                with self.keeping():
                    self.book.change(with_owners(use, pods))

    def _nameless(self, units: Collection[DeviceId]) -> list[Use]:
        return [use for use in self.book.of_units(units) if not any(owner.pod for owner in use.owners)]

    async def post_stopped(self, units: Collection[DeviceId], operation: OperationId) -> None:
        """The kubelet called PostStopContainer."""
        self.has_calls = True
        uses = self.book.of_units(units)
        if len(uses) == 1 and uses[0].units.keys() >= set(units):
            assignment = replace(uses[0].stop_of(units, Origin.KUBELET), key=AssignmentKey(operation or uuid4().hex))
        else:
            assignment = self._unknown(units, operation)
        await self._hooks.once(operation, self._plugin.post_stop, assignment)
        for use in uses:
            self._stopped(use.key, units)

    async def deallocated(self, units: Collection[DeviceId], operation: OperationId) -> None:
        """The kubelet called Deallocate: what is in use of ``units`` is over."""
        self.has_calls = True
        uses = self.book.of_units(units)
        for use in uses:
            is_part = not use.units.keys() <= set(units) and use.phase is not Phase.RELEASING
            over = self.book.split(use, units) if is_part else use
            await self.end(over.key, Origin.KUBELET)
        known = {unit for use in uses for unit in use.units}
        unknown = [unit for unit in dict.fromkeys(units) if unit not in known and unit not in self._released]
        if unknown and self._cleans:  # given before there was a journal, or before it was lost
            await self._hooks.once(operation, self._plugin.release, self._unknown(unknown, operation))
        if self._mode is not None:
            self._mode.release(units)

    def _unknown(self, units: Collection[DeviceId], operation: OperationId) -> Assignment:
        behind = {unit: device for use in self.book.of_units(units) for unit, device in use.units.items()}
        made = assignment_of(
            operation, self.resource, devices=[behind.get(unit, unit) for unit in units], units=list(units)
        )
        return replace(made, origin=Origin.KUBELET)

    # --- keeping ----------------------------------------------------------------------------------------------------

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Write something down; a plugin that does not insist on clean devices goes on if that is not possible.

        Raises:
            PathUnusable: it insists.
        """
        try:
            yield
        except PathUnusable as error:
            if self._is_strict:
                raise
            logger.error("%s: %s; what is in use now may never be released", self.resource, error)
