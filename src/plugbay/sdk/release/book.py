"""The uses of one resource, in memory and in the journal alike: nothing changes in one that is not in the other."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum, auto
from pathlib import Path
from typing import Final

from plugbay.errors import DevicesNotReleased, PathUnusable
from plugbay.model.assignments import AssignmentKey, Origin
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.sdk.release.journal import Journal
from plugbay.sdk.release.records import Answered, Closed, Content, Record
from plugbay.sdk.release.recovery import as_found, is_of_earlier_boot
from plugbay.sdk.release.uses import Ledger, Life, Phase, Reading, Use, after

logger = logging.getLogger(__name__)

_TO_DISK_S: Final = 0.05
"""Records that come this close together are put on the disk at once."""

OTHER_RELEASES: Final = "another process of this plugin releases them"


class Trouble(Enum):
    """What to do when nothing can be kept, because the disk is full for instance."""

    RAISED = auto()
    """For who insists that devices are released."""
    LOGGED = auto()


class Book:
    """What is in use, for the event loop's thread.

    Attributes:
        is_ours: whether this process is the one that releases; another one of the same plugin may be.
        life: of the kubelet, as it was written down last.
        heard: called with the units that are in use no longer, and those that are now, by another process's records.
    """

    def __init__(self, journal: Journal, resource: ResourceName, trouble: Trouble) -> None:
        self._journal = journal
        self._trouble = trouble
        self._resource = resource
        self._ledger = Ledger()
        self._timer: asyncio.TimerHandle | None = None
        self.life: Life | None = None
        self.heard: Callable[[Collection[DeviceId], Collection[DeviceId]], object] | None = None

    @property
    def bell(self) -> Path:
        """A file that changes when another process has written; another one from `take_over` on."""
        return self._journal.bell

    @property
    def path(self) -> Path:
        """The journal."""
        return self._journal.path

    @property
    def is_open(self) -> bool:
        """Whether anything is kept."""
        return self._journal.is_open

    @property
    def is_ours(self) -> bool:
        return self._journal.is_ours

    def open(self) -> None:
        """Take over what is written; blocks.

        Raises:
            PathUnusable: nothing can be kept there.
        """
        self._journal.__enter__()
        self.take_over(())

    def wait_to_take_over(self) -> None:
        """Block until the process that releases has ended.

        Raises:
            PathUnusable: there is nothing to wait for.
        """
        self._journal.wait_to_own()

    def take_over(self, allocating: Collection[AssignmentKey]) -> None:
        """Read all; who has become its keeper also ends what nobody can use any more.

        Args:
            allocating: calls of this process that are being answered.

        Raises:
            PathUnusable: nothing can be kept there.
        """
        with self._journal.alone():
            self._journal.try_to_own()
            content = self._journal.read()
            self._learn(content)  # whatever becomes of the rest: what was read is no news any more
            if self.is_ours:
                if content.uses and is_of_earlier_boot(content, self._journal.boot):
                    logger.info("%s: the machine was rebooted: %d uses are over", self._resource, len(content.uses))
                content = as_found(content, self._journal.boot, allocating)
                self._journal.rewrite(lambda _: _records(content))
                self._learn(content)

    def close(self) -> None:
        """Let it go; it may be opened again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._journal.__exit__(None, None, None)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """For whatever writes in the block; `Trouble.LOGGED` lets it end there.

        Raises:
            PathUnusable: it could not be written.
        """
        try:
            yield
        except PathUnusable as error:
            if self._trouble is Trouble.RAISED:
                raise
            logger.error("%s: %s; what is in use now may never be released", self._resource, error)

    # --- what is in use ---------------------------------------------------------------------------------------------

    def uses(self) -> list[Use]:
        return list(self._ledger)

    def get(self, key: AssignmentKey) -> Use | None:
        return self._ledger.get(key)

    def of_units(self, units: Collection[DeviceId]) -> list[Use]:
        """The uses that have one of ``units``, another process's included; none that was overtaken."""
        self.hear()
        return self._ledger.of_units(units)

    def overtaken(self, units: Collection[DeviceId]) -> list[Use]:
        """The uses that had one of ``units`` when others were given them, and may be going on."""
        return [use for use in self._ledger if use.is_overtaken and not use.units.keys().isdisjoint(units)]

    def hear(self) -> None:
        """Take in what another process has written, if it has.

        Raises:
            PathUnusable: it cannot be read.
        """
        if self.is_open and self._journal.has_news:
            with self._journal.alone():
                self._learn(self._journal.read())

    def sharing(self, devices: Collection[DeviceId], *phases: Phase) -> list[Use]:
        """The uses in one of ``phases`` that have one of ``devices``, be it through another replica."""
        return [use for use in self._ledger if use.phase in phases and not set(use.units.values()).isdisjoint(devices)]

    # --- changes: each takes in first what another process has written, so that none undoes the other's ------------

    def begin(self, units: Mapping[DeviceId, DeviceId], life: str, *, found: Reading | None = None) -> Use:
        """A use of ``units``, none of which may be in another that is open. One that is over and could not be released,
        as the lazy leave it, is overtaken: who is the last of them all is released.

        Args:
            found: lists it, for one that a kubelet knows of already: no crash may find it in between.

        Raises:
            DevicesNotReleased: another process has just begun to release them.
        """
        use = Use(
            key=_fresh_key(),
            resource=self._resource,
            units=units,
            since=asyncio.get_running_loop().time(),
            life=life,
        )
        if found is not None:
            use = after(replace(use, phase=Phase.OPEN), found)
        with self._writing():
            if not self.is_ours and self.sharing([*units.values()], Phase.RELEASING):
                raise DevicesNotReleased(list(units), self._resource, OTHER_RELEASES)
            for over in self._ledger.of_units(units):
                if over.phase is not Phase.OPEN:
                    self._overtake(over, units)
            self._journal.append(use)
            self._ledger.put(use)
        return use

    def answered(self, key: AssignmentKey) -> bool:
        """The kubelet is about to learn that the devices are its.

        Returns:
            False when it must not: another process took the call for a dead one's, and releases the devices.
        """
        with self._writing():
            use = self._ledger.get(key)
            if use is None or use.phase is Phase.RELEASING:
                return False
            self._journal.append(Answered(key))
            self._ledger.put(replace(use, phase=Phase.OPEN))
        return True

    def change(self, use: Use) -> None:
        """This is known of a use now; it changes nothing in what it has and how far it has come."""
        now = self._ledger.get(use.key)
        if now is None or now == use:
            return
        if replace(now, absences=use.absences) == use:  # what comes with every reading is kept in memory only
            self._ledger.put(use)
            return
        with self._writing():
            now = self._ledger.get(use.key)
            if now is None or now.is_overtaken is not use.is_overtaken:  # then others' holding it was taken for its own
                return
            changed = replace(
                use,
                phase=now.phase,
                origin=now.origin,
                units=now.units,
                started=use.started.intersection(now.units),
            )
            self._journal.append(changed)
            self._ledger.put(changed)

    def end(self, key: AssignmentKey, origin: Origin, *, seen: Phase | None = None) -> Use | None:
        """The use is over, for good; None when there is no such use any more.

        Args:
            seen: the phase from which that follows; if it is in another one by now, another process has just answered
                its Allocate, and it is not over.
        """
        with self._writing():
            use = self._ledger.get(key)
            if use is not None and seen not in (None, use.phase):
                return None
            if use is not None and use.phase is not Phase.RELEASING:
                use = replace(use, phase=Phase.RELEASING, origin=origin)
                self._journal.append(use)
                self._ledger.put(use)
        return use

    def lose(self, key: AssignmentKey, units: Collection[DeviceId]) -> bool:
        """``units`` get into other hands, unreleased, and whoever had them does not count any more.

        Returns:
            False when another process has begun to release them.
        """
        with self._writing():
            use = self._ledger.get(key)
            if use is None:
                return True
            if use.phase is Phase.RELEASING:
                return self.is_ours  # `begin` takes them over
            left = use.without(units)
            # Not written: the use to come takes them over in one line (`records.read`), or they stay this one's.
            if left is None:
                self._ledger.remove(key)
            else:
                self._ledger.put(left)
        return True

    def overtake(self, key: AssignmentKey, units: Collection[DeviceId]) -> bool:
        """``units`` get into other hands, unreleased, and whoever had them may go on.

        Returns:
            False when another process has begun to release them.
        """
        with self._writing():
            use = self._ledger.get(key)
            if use is None:
                return True
            if use.phase is Phase.RELEASING:
                return self.is_ours  # `begin` does it
            if not use.is_overtaken:
                self._overtake(use, units)
        return True

    def _overtake(self, use: Use, units: Collection[DeviceId]) -> None:
        left = use.without(units)
        taken = self._part(use, units) if left is not None else use
        taken = replace(taken, is_overtaken=True, absences=0)
        rest: list[Record] = [Closed(use.key)] if left is None else [left]
        if (twin := next(filter(taken.is_twin_of, self.overtaken(units)), None)) is not None:
            taken = replace(twin, started=twin.started | taken.started)
        elif left is None:
            rest = []
        self._journal.append(taken, *rest)  # torn in between it says both, which does no harm
        if left is None:
            self._ledger.remove(use.key)
        else:
            self._ledger.put(left)
        self._ledger.put(taken)

    def split(self, use: Use, units: Collection[DeviceId]) -> Use:
        """Make ``units`` of a use one of their own; not all of them."""
        part = self._part(use, units)
        left = use.without(units)
        assert left is not None
        with self._writing():
            self._journal.append(left, part)
            self._ledger.put(left)
            self._ledger.put(part)
        return part

    def _part(self, use: Use, units: Collection[DeviceId]) -> Use:
        mine = {unit: device for unit, device in use.units.items() if unit in units}
        return replace(use, key=_fresh_key(), units=mine, started=use.started.intersection(units))

    def close_use(self, key: AssignmentKey) -> None:
        """It is over and done with, or never was one."""
        with self._writing():
            self._journal.append(Closed(key))
            self._ledger.remove(key)

    def note(self, life: Life) -> None:
        """The kubelet lives this life."""
        if life != self.life:
            with self._writing():
                self._journal.append(life)
                self.life = life

    async def compact(self) -> None:
        """Leave out what is over, if that is much by now."""
        if self._journal.is_long:
            await asyncio.to_thread(self._rewrite)

    def _rewrite(self) -> None:
        with self._journal.alone():
            if not self._journal.has_news:  # which the event loop's thread has to learn first
                self._journal.rewrite(_records)

    def _learn(self, content: Content) -> None:
        before = {unit for use in self._ledger for unit in use.units}
        absences = {(use.key, *use.units): use.absences for use in self._ledger}
        self._ledger = Ledger(replace(use, absences=absences.get((use.key, *use.units), 0)) for use in content.uses)
        self.life = content.life
        if self.heard is not None:
            after = {unit for use in self._ledger for unit in use.units}
            self.heard(before - after, after - before)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._journal.alone():
            if self._journal.has_news:
                self._learn(self._journal.read())
            yield
        self._sync_soon()

    def _sync_soon(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_TO_DISK_S, self._sync)

    def _sync(self) -> None:
        self._timer = None
        asyncio.get_running_loop().run_in_executor(None, self._journal.sync)


def _fresh_key() -> AssignmentKey:
    """As unlike any other as a UUID is; making one of those takes three times as long, while a kubelet waits."""
    return AssignmentKey(os.urandom(16).hex())


def _records(content: Content) -> list[Record]:
    return [*([] if content.life is None else [content.life]), *content.uses]
