"""The evidence about the uses of one resource: what the kubelet's checkpoint says, and whether it may be asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from plugbay.errors import CheckpointUnread, PathUnusable
from plugbay.model.ids import ResourceName
from plugbay.sdk.release.evidence.pod_lists import Shared
from plugbay.sdk.release.evidence.readings import Readings
from plugbay.sdk.release.evidence.stopping import StoppingPods
from plugbay.sdk.release.ledger.ledger import Ledger
from plugbay.sdk.release.uses import GRACE_S, Reading, Use, UsePhase, lives_of
from plugbay.wire.plugin_server import Caller

if TYPE_CHECKING:
    from plugbay.kubelet.paths import KubeletPaths
    from plugbay.sdk.watching import Watches

LastReading: TypeAlias = tuple[str, float]
"""The problem of a reading of the checkpoint, empty for none, and its time on the event loop's clock."""


class Evidence:
    """Reads the kubelet's checkpoint and follows the kubelet's restarts.

    Args:
        resend: sends the list of devices again, and returns to how many kubelets.

    Attributes:
        has_calls: whether the present kubelet calls PostStopContainer or Deallocate: it promised to, or did so.
        outcomes: how many checkpoints were read, and how many could not be.
        last: None before the first one.
        stopping: sees containers of pods that the kubelet gave up.
    """

    def __init__(
        self, resource: ResourceName, ledger: Ledger, shared: Shared, paths: KubeletPaths, resend: Callable[[], int]
    ) -> None:
        self.has_calls = False
        self.outcomes = Counter({"ok": 0, "failed": 0})
        self.last: LastReading | None = None
        self.stopping = StoppingPods(shared.proc_root)
        self._resource = resource
        self._ledger = ledger
        self._shared = shared
        self._paths = paths
        self._resend = resend
        self._readings: Readings | None = None
        self._met = ""  # the life of the kubelet that this process has met

    def open(self, watches: Watches) -> None:
        """Begin where the ledger ends.

        Args:
            watches: tell of new checkpoints.
        """
        self._readings = Readings(self._paths, self._resource, watches, resend=self._resend)
        self._readings.life = self._ledger.life

    def close(self) -> None:
        self._readings = None

    # --- the kubelet ------------------------------------------------------------------------------------------------

    async def meet(self, caller: Caller) -> bool:
        """See which checkpoint a kubelet began with, when it asks for the list of devices and has not got it yet.

        Args:
            caller: what the kubelet says of itself. One that knows PostStopContainer and Deallocate without promising
                to call them shows that by its first call.

        Returns:
            Whether this process meets this life of the kubelet for the first time.
        """
        has_promise = caller.will_call and self._shared.settings.source.takes_calls
        self.has_calls |= has_promise
        self._shared.pod_lists.heed(caller)
        if self._readings is None:
            return False
        before = self._ledger.life
        known_to = {each for use in self._ledger.uses() for each in lives_of(use)}
        try:
            life = await self._readings.meet(known_to=known_to, store=caller.store)
        except CheckpointUnread:
            return False
        if before is None or life.id != before.id:
            self.has_calls = has_promise
            self.stopping.kubelet_restarted()
        if life != before:
            with suppress(PathUnusable):  # it is said when something is given
                self.note_life()
        is_new, self._met = life.id != self._met, life.id
        return is_new

    def note_life(self) -> None:
        """Write down which life of the kubelet this is, which a full disk may have prevented when it was met.

        Raises:
            PathUnusable: it cannot be written.
        """
        if self._readings is not None and self._readings.life is not None:
            self._ledger.note(self._readings.life)

    @property
    def synthesises(self) -> bool:
        """Whether ends of uses are concluded from checkpoints."""
        return self._shared.settings.source.reads_checkpoints and not self.has_calls

    def looks_at(self, use: Use) -> bool:
        """Whether checkpoints tell of the end of ``use``; no kubelet calls for a use that was overtaken."""
        return self.synthesises or (use.is_overtaken and self._shared.settings.source.reads_checkpoints)

    # --- its checkpoint ---------------------------------------------------------------------------------------------

    async def read(self, uses: Collection[Use]) -> Reading:
        """Make the kubelet write its checkpoint, and read what it says of ``uses``.

        Raises:
            CheckpointUnread: there is no reading that can be relied on.
        """
        loop = asyncio.get_running_loop()
        if self._readings is None:
            raise CheckpointUnread("the plugin does not serve")
        try:
            reading = await self._readings.read([use.pod for use in uses if use.pod])
        except CheckpointUnread as error:
            self.last = error.problem, loop.time()
            self.outcomes["failed"] += 1
            raise
        with suppress(PathUnusable):
            self.note_life()
        self.last = "", loop.time()
        self.outcomes["ok"] += 1
        return await self.stopping.seen(uses, reading)

    async def found(self) -> Reading:
        """Read the checkpoint that is there already; without one the reading lists nothing.

        Raises:
            CheckpointUnread: it is there, and cannot be read now.
        """
        if self._readings is None:
            raise CheckpointUnread("the plugin does not serve")
        return await asyncio.to_thread(self._readings.found, asyncio.get_running_loop().time())

    async def learn(self, watches: Watches, *, matters: Callable[[Use], bool]) -> NoReturn:
        """Look which pods have the devices in each checkpoint that is written, until cancelled.

        Args:
            matters: tells whether a checkpoint may be asked whether a use is over.
        """
        assert self._readings is not None
        await self.stopping.learn(self._ledger, self._readings, watches, matters=matters)

    async def has_stored(self) -> bool:
        """Whether the kubelet has stored all that it was answered; it never stores what is older than `GRACE_S`.

        A kubelet that is asked for its pods drops the assignments of pods that have ended. Then it takes devices for
        free that it has been given and has not stored yet, and gives them to the next pod as well (spec 4.9.2). How
        long storing takes is not known, and the process that answered may have ended since. But the kubelet has stored
        what its checkpoint lists, and what it starts a container with.
        """
        if not self.synthesises:  # its checkpoint is not to be read, or it calls, and forgets nothing
            return True
        if not (young := self._young()):
            return True
        try:
            reading = await self.read(young)
        except CheckpointUnread:
            return False
        return all(reading.listed.keys() & use.units.keys() for use in self._young())

    def _young(self) -> list[Use]:
        """The uses that no checkpoint has listed yet, other processes' included; `Quiet` knows calls of our own."""
        oldest = asyncio.get_running_loop().time() - GRACE_S
        return [
            use
            for use in self._ledger.uses()
            if use.since > oldest
            and use.phase is not UsePhase.RELEASING
            and not (use.seen_in or use.started or use.is_overtaken)
            and use.key not in self._ledger.allocating
        ]
