"""Who has the devices of one resource, by what a kubelet calls.

What has to be over before an Allocate is in `clearance`; `sweep` looks for uses that are over while nobody asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.errors import CheckpointUnread, DevicesNotReleased, PathUnusable
from plugbay.model.assignments import AssignmentKey, Origin
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.model.releases import OperationId
from plugbay.sdk.backoff import Backoff
from plugbay.sdk.plugin import DevicePlugin, offers, resource_of
from plugbay.sdk.release.book import OTHER_RELEASES, Book
from plugbay.sdk.release.clearance import PATIENCE_S, Clearance
from plugbay.sdk.release.ends import Ends
from plugbay.sdk.release.hooks import ReleaseHooks
from plugbay.sdk.release.journal import Journal
from plugbay.sdk.release.kept import Trouble
from plugbay.sdk.release.neighbours import adopt, listen
from plugbay.sdk.release.readings import Readings
from plugbay.sdk.release.settings import DIRECTORY_NAME, ReleasePolicy
from plugbay.sdk.release.starts import Starts
from plugbay.sdk.release.stopping import StoppingPods
from plugbay.sdk.release.stored import has_stored
from plugbay.sdk.release.sweep import Sweep
from plugbay.sdk.release.uses import Phase, Reading, Use, lives_of
from plugbay.sdk.turns import Turns
from plugbay.sdk.waiting import to_the_end, wait_first
from plugbay.wire.plugin_server import Caller

if TYPE_CHECKING:
    from plugbay.kubelet.paths import KubeletPaths
    from plugbay.sdk.release.quiet import Shared
    from plugbay.sdk.watching import Watches

logger = logging.getLogger(__name__)

UNKNOWN: Final = Caller()
"""Says nothing of itself, as a kubelet."""


class Custody:
    """The uses of one plugin's devices.

    Args:
        hooks: calls the author's hooks, one at a time for each use.
        resend: sends the list of devices again; returns to how many kubelets.

    Attributes:
        book: what is in use.
        has_calls: whether the kubelet of now calls PostStopContainer or Deallocate: it has promised to, or has done so.
        readings: how many checkpoints were read, by outcome.
        last: the last reading or why there was none, and when that was, in the event loop's time.
        stirred: set when there may be something in use that was not before, or something to look at soon.
        is_urgent: whether to look soon: a kubelet has restarted, or a release has to be tried again.
        ends: calls the author's hooks.
        stopping: sees containers of pods that the kubelet gave up.
        starting: calls of PreStartContainer, to their very end.
        policy: what the plugin insists on.
        doubts: why uses that are not listed may go on nevertheless, by the use.
    """

    def __init__(
        self, plugin: DevicePlugin, paths: KubeletPaths, shared: Shared, hooks: ReleaseHooks, resend: Callable[[], int]
    ) -> None:
        self.resource: ResourceName = resource_of(plugin)
        directory = shared.settings.directory or paths.device_plugins / DIRECTORY_NAME
        cleans = offers(plugin, "release")
        self.policy = plugin.release_policy
        self.doubts: dict[AssignmentKey, str] = {}
        self._mode = None if plugin.modes is None else plugin.modes.mode(self.resource)
        # Unwritten it would not count: a release could come while the device is in use, or post_stop() never.
        self._has_to_keep = cleans or offers(plugin, "post_stop")
        self._is_strict = self.policy is ReleasePolicy.STRICT and cleans
        trouble = Trouble.RAISED if self._is_strict else Trouble.LOGGED
        self.book = Book(Journal(Path(directory), self.resource, shared.boot), self.resource, trouble)
        self.shared = shared
        self.has_calls = False
        self.readings = Counter({"ok": 0, "failed": 0})
        self.last: tuple[str, float] | None = None
        self.stirred = asyncio.Event()
        self.is_urgent = False
        self.starting = Turns()
        self.ends = Ends(plugin, self.book, hooks, self.starting)
        self._paths = paths
        self._resend = resend
        self._readings: Readings | None = None
        self._watches: Watches | None = None
        self._allocating: set[AssignmentKey] = set()
        self.stopping = StoppingPods(shared.proc_root)
        self._met = ""  # the kubelet's life that this process has met
        self._clearance = Clearance(
            self.resource,
            self.book,
            self.ends,
            policy=ReleasePolicy.STRICT if self._is_strict else ReleasePolicy.LAZY,
            cleans=cleans,
            looks=self._is_strict or shared.settings.source.reads_checkpoints,
            has_calls=lambda: self.has_calls,
            allocating=self._allocating,
            read=self.read,
            until_stopped=self.stopping.until_stopped,
        )
        self._starts = Starts(self, hears_stops=offers(plugin, "post_stop"))
        self._allocates = Turns()

    async def open(self, watches: Watches, stopping: asyncio.Event) -> None:
        """Take over what earlier processes have left; waits until it can, or is to stop, if the plugin insists on it.

        Args:
            watches: where to learn of new checkpoints, and of what other processes write.
        """
        self._watches = watches
        self._readings = Readings(self._paths, self.resource, watches, resend=self._resend)
        backoff, problem = Backoff(), ""
        while not stopping.is_set():
            try:
                await to_the_end(asyncio.to_thread(self.book.open))  # which would keep the journal after `close`
                break
            except PathUnusable as error:
                if str(error) != problem:  # the same one over and over is one line in the log
                    logger.error("%s: %s", self.resource, error)
                problem = str(error)
                if not self._is_strict:
                    break
            await wait_first(stopping.wait, timeout_s=backoff.next_delay_s())
        self._readings.life = self.book.life
        if self.book.is_ours:
            await self._adopt(self._readings, stopping)
        # What is not released yet keeps its hardware, its pod being gone or not.
        if self._mode is not None:
            self._mode.restore(unit for use in self.book.uses() for unit in use.units)
        self.book.heard = self._heard
        self.shared.pod_lists.checks[self.resource] = partial(has_stored, self)

    async def _adopt(self, readings: Readings, stopping: asyncio.Event) -> None:
        backoff, problem = Backoff(), ""
        while not stopping.is_set():
            try:
                await adopt(self.book, readings, self.resource)
                return
            except CheckpointUnread as error:
                if str(error) != problem:
                    logger.error("%s: cannot find out which devices pods have: %s", self.resource, error)
                problem = str(error)
                if not self._is_strict:
                    return
            await wait_first(stopping.wait, timeout_s=backoff.next_delay_s())

    def _heard(self, gone: Collection[DeviceId], come: Collection[DeviceId]) -> None:
        """Other processes of the plugin have given ``come``, or released ``gone``."""
        if self._mode is not None:
            self._mode.release(gone)
            self._mode.restore(come)
        self.stirred.set()
        logger.debug("%s: another process: given %s, released %s", self.resource, sorted(come), sorted(gone))

    async def run(self) -> None:
        """Look for uses that are over, for what other processes write, and for whose they are, until cancelled."""
        if self.book.is_open and self._watches is not None and self._readings is not None:
            async with asyncio.TaskGroup() as tasks:
                learning = self.stopping.learn(
                    self.book,
                    self._readings,
                    self._watches,
                    matters=lambda use: self._is_strict or self.looks_at(use),
                )
                tasks.create_task(learning, name=f"pods with {self.resource}")
                tasks.create_task(listen(self.book, self._watches), name=f"others' uses of {self.resource}")
                await Sweep(self).run()

    def close(self) -> None:
        self.shared.pod_lists.checks.pop(self.resource, None)
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

    def looks_at(self, use: Use) -> bool:
        """Whether checkpoints tell of its end; of what was overtaken no kubelet calls."""
        return self.synthesises or (use.is_overtaken and self.shared.settings.source.reads_checkpoints)

    # --- readings ---------------------------------------------------------------------------------------------------

    async def stream_opened(self, caller: Caller = UNKNOWN) -> None:
        """A kubelet wants the list, and has not got it yet: the moment to see what it began with.

        Args:
            caller: what it says of itself. If one that does not promise to call PostStopContainer and Deallocate knows
                these calls nevertheless, its first call tells.
        """
        has_promise = caller.will_call and self.shared.settings.source.takes_calls
        self.has_calls |= has_promise
        self.shared.pod_lists.heed(caller)
        if self._readings is None:
            return
        before = self.book.life
        known_to = {each for use in self.book.uses() for each in lives_of(use)}
        try:
            life = await self._readings.meet(known_to=known_to, store=caller.store)
        except CheckpointUnread:
            return
        if before is None or life.id != before.id:
            self.has_calls = has_promise
            self.stopping.kubelet_restarted()
        if life != before:
            with suppress(PathUnusable):  # said when something is given
                self._note_life()
        if life.id != self._met and self.book.uses():  # what was found in the journal is not known to go on, either
            self.look_soon()
        self._met = life.id

    def _note_life(self) -> None:
        """A full disk may have kept it from being written when it was met."""
        if self._readings is not None and self._readings.life is not None:
            self.book.note(self._readings.life)

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
            self.readings["failed"] += 1
            raise
        with suppress(PathUnusable):
            self._note_life()
        self.last = "", loop.time()
        self.readings["ok"] += 1
        return await self.stopping.seen(uses, reading)

    # --- Allocate ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def allocate(self, units: Mapping[DeviceId, DeviceId]) -> AsyncIterator[None]:
        """Around an answer to Allocate: before it, whoever had ``units`` is gone and they are released.

        Args:
            units: as the kubelet names them, each with the device behind it.

        Raises:
            DevicesNotReleased: they are not, or that is not known, and the plugin insists on it; or a release is still
                to come, which would not know that they are in use again.
            PathUnusable: it cannot be kept that they are in use, and a release may come.
        """
        with self.shared.quiet.allocating([(self.resource, unit) for unit in units]):
            await self._wait_for_other_calls(units)
            with self._asking_for(units):
                use = self._begin(await self._clearance.clear(units))
                try:
                    yield
                except Exception:  # refused, so no kubelet assigns them
                    self._forget(use)
                    raise
                finally:
                    # Cancelled: no kubelet gets an answer, so none assigns them; the hook's work is to be undone.
                    self.ends.given(units)
                    if use is not None:
                        self._allocating.discard(use.key)
                if use is not None and not self.book.answered(use.key):
                    raise DevicesNotReleased([*use.units], self.resource, OTHER_RELEASES)

    async def _wait_for_other_calls(self, units: Collection[DeviceId]) -> None:
        """A kubelet restarted in the middle of a call asks again."""
        try:
            await self._allocates.until_free(units, patience_s=PATIENCE_S)
        except TimeoutError:
            problem = f"an earlier allocate() takes longer than {PATIENCE_S:g} s"
            raise DevicesNotReleased(list(units), self.resource, problem) from None

    @contextmanager
    def _asking_for(self, units: Collection[DeviceId]) -> Iterator[None]:
        """No other call for ``units`` runs in the block."""
        try:
            with self._allocates.taking(units):
                yield
        finally:
            self.stirred.set()  # refused or not: something is in use, or is to be released

    def _begin(self, fresh: Mapping[DeviceId, DeviceId]) -> Use | None:
        if not fresh:
            return None
        with nullcontext() if self._has_to_keep and self.book.is_open else self.book.keeping():
            self._note_life()
            use = self.book.begin(fresh, "" if self.book.life is None else self.book.life.id)
            self._allocating.add(use.key)
            return use
        if self.book.sharing([*fresh.values()], *Phase):  # it could not be written down, and these will be released
            raise DevicesNotReleased([*fresh], self.resource, "their release could come while they are in use again")
        return None

    def _forget(self, use: Use | None) -> None:
        if use is not None:
            with self.book.keeping():
                if self.ends.owes(use):
                    self.book.end(use.key, Origin.SYNTHESISED)
                else:
                    self.book.close_use(use.key)

    # --- other calls of a kubelet -----------------------------------------------------------------------------------

    async def pre_start(self, units: Collection[DeviceId]) -> None:
        """A container with ``units`` is about to be created: an earlier one that had them has ended."""
        await self._starts.begin(units)

    async def pre_started(self, units: Collection[DeviceId]) -> None:
        """The kubelet is about to learn that the container can be created."""
        await self._starts.end(units)

    async def post_stopped(self, units: Collection[DeviceId], operation: OperationId) -> None:
        """The kubelet called PostStopContainer."""
        self.has_calls = True
        await self.ends.post_stopped(units, operation)

    async def deallocated(self, units: Collection[DeviceId], operation: OperationId) -> None:
        """The kubelet called Deallocate: what is in use of ``units`` is over."""
        self.has_calls = True
        await self.ends.deallocated(units, operation)
