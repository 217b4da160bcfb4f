"""The uses of one resource. Every change goes to the journal before it takes effect in memory."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum, auto
from pathlib import Path
from typing import Final

from plugbay.errors import DevicesNotReleased, PathUnusable
from plugbay.model.assignments import AssignmentKey, Origin
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.ops.tasks import to_the_end
from plugbay.sdk.release.ledger.index import UseIndex
from plugbay.sdk.release.ledger.journal import Journal, Rewritten
from plugbay.sdk.release.ledger.lines import Answered, Closed, Content, Record, as_found, is_of_earlier_boot
from plugbay.sdk.release.uses import KubeletLife, Reading, Use, UsePhase, after

logger = logging.getLogger(__name__)

OTHER_RELEASES: Final = "another process of this plugin releases them"
_TO_DISK_S: Final = 0.05
"""Records that come this close together are put on the disk at once."""


class Trouble(Enum):
    """The reaction when nothing can be kept, because the disk is full for instance."""

    RAISED = auto()
    """An error is raised: the plugin insists on releases."""
    LOGGED = auto()


class Ledger:
    """The uses of one resource, for the event loop's thread; each change is in the journal before it takes effect here.

    A change first takes in what another process has written, so that neither undoes the other's.

    Attributes:
        allocating: the uses whose Allocate this process is answering.
        life: the kubelet's life that was written down last.
        heard: is called with the units that other processes have released, and those that they have given.
    """

    def __init__(self, journal: Journal, resource: ResourceName, trouble: Trouble) -> None:
        self._journal = journal
        self._trouble = trouble
        self._resource = resource
        self._uses = UseIndex()
        self._timer: asyncio.TimerHandle | None = None
        self.allocating: set[AssignmentKey] = set()
        self.life: KubeletLife | None = None
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
        """Whether this process makes the releases; another process of the same plugin may make them instead."""
        return self._journal.is_ours

    def open(self) -> None:
        """Learn what is written; blocks, for the disk as well.

        Raises:
            PathUnusable: nothing can be kept there.
        """
        self._journal.__enter__()
        try:
            self._claim()
        finally:
            if self._journal.is_newer:
                self.close()  # or what begins now would be written to it, in our format
        if self.is_ours:
            rewritten = self._journal.prepare(self._as_found)
            with self._journal.alone():
                self._put_in_place(rewritten)

    def wait_to_take_over(self) -> None:
        """Block until the process that releases has ended.

        Raises:
            PathUnusable: there is nothing to wait for.
        """
        self._journal.wait_to_own()

    async def take_over(self) -> None:
        """Become the process that releases, if no other is it by now, and end the uses that no pod can have any more.

        Raises:
            PathUnusable: nothing can be kept there.
        """
        self._claim()
        if self.is_ours:
            await self._rewrite(self._as_found, self._put_in_place)

    def _claim(self) -> None:
        with self._journal.alone():
            self._journal.try_to_own()
            content = self._journal.read()
            self._learn(content)  # whatever becomes of the rest: it must not be read again
            if not self.is_ours:
                return
            self._journal.remove_unfinished()
            found = as_found(content, self._journal.boot, self.allocating)
            if is_of_earlier_boot(content, self._journal.boot):
                if content.uses:
                    logger.info("%s: the machine was rebooted: %d uses are over", self._resource, len(content.uses))
            elif ended := [use for before, use in zip(content.uses, found.uses, strict=True) if use != before]:
                self._journal.append(*ended)  # at once: no other process may answer their Allocate any more
            self._learn(found)

    def _as_found(self, content: Content) -> list[Record]:
        return _records(as_found(content, self._journal.boot, self.allocating))

    def _put_in_place(self, rewritten: Rewritten) -> None:
        if self._journal.replace(rewritten):
            self._learn(self._journal.read())

    def close(self) -> None:
        """Let it go; it may be opened again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._journal.__exit__(None, None, None)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Run a block that writes; with `Trouble.LOGGED` the block ends where that fails.

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
        return list(self._uses)

    def get(self, key: AssignmentKey) -> Use | None:
        return self._uses.get(key)

    def of_units(self, units: Collection[DeviceId]) -> list[Use]:
        """The uses that have one of ``units``, another process's included; none that was overtaken."""
        self.hear()
        return self._uses.of_units(units)

    def overtaken(self, units: Collection[DeviceId]) -> list[Use]:
        """The uses that had one of ``units`` when others were given them, and may be going on."""
        return [use for use in self._uses if use.is_overtaken and not use.units.keys().isdisjoint(units)]

    def hear(self) -> None:
        """Take in what another process has written, if it has.

        Raises:
            PathUnusable: it cannot be read.
        """
        if self.is_open and self._journal.has_news:
            with self._journal.alone():
                self._learn(self._journal.read())

    def sharing(self, devices: Collection[DeviceId], *phases: UsePhase) -> list[Use]:
        """The uses in one of ``phases`` that have one of ``devices``, perhaps through another replica."""
        return [use for use in self._uses if use.phase in phases and not set(use.units.values()).isdisjoint(devices)]

    # --- the journal, and what is known by it -----------------------------------------------------------------------

    async def compact(self) -> None:
        """Leave out what is over, if that is much by now."""
        if self._journal.is_long:
            await self._rewrite(_records, self._journal.replace)

    async def _rewrite(self, kept: Callable[[Content], Iterable[Record]], put: Callable[[Rewritten], object]) -> None:
        """Rewrite the journal. Only a thread waits for the disk; what is written meanwhile stays."""
        prepared: list[Rewritten] = []
        try:
            await to_the_end(asyncio.to_thread(lambda: prepared.append(self._journal.prepare(kept))))
            with self._writing():
                put(prepared.pop())
        finally:
            for left in prepared:
                left.discard()

    def _learn(self, content: Content) -> None:
        before = {unit for use in self._uses for unit in use.units}
        absences = {(use.key, *use.units): use.absences for use in self._uses}
        self._uses = UseIndex(replace(use, absences=absences.get((use.key, *use.units), 0)) for use in content.uses)
        self.life = content.life
        if self.heard is not None:
            after = {unit for use in self._uses for unit in use.units}
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

    # --- what becomes of a use ----------------------------------------------------------------------------------------

    def begin(self, units: Mapping[DeviceId, DeviceId], life: str, *, found: Reading | None = None) -> Use:
        """Begin a use of ``units``; they must not be in another open use.

        A use that is over and could not be released, as a lazy plugin leaves it, is superseded: only the last use of
            the same units is released.

        Args:
            found: a reading that lists the use, if a kubelet knows of it already: no crash may find it in between.

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
            use = after(replace(use, phase=UsePhase.OPEN), found)
        with self._writing():
            if not self.is_ours and self.sharing([*units.values()], UsePhase.RELEASING):
                raise DevicesNotReleased(list(units), self._resource, OTHER_RELEASES)
            for over in self._uses.of_units(units):
                if over.phase is not UsePhase.OPEN:
                    self._overtake(over, units)
            self._journal.append(use)
            self._uses.put(use)
        return use

    def answered(self, key: AssignmentKey) -> bool:
        """Note that the kubelet is about to learn that the devices are its own.

        Returns:
            False when it must not: another process took the call for a dead one's, and releases the devices.
        """
        with self._writing():
            use = self._uses.get(key)
            if use is None or use.phase is UsePhase.RELEASING:
                return False
            at = asyncio.get_running_loop().time()
            self._journal.append(Answered(key, at))
            self._uses.put(replace(use, phase=UsePhase.OPEN, since=at))
        return True

    def change(self, use: Use) -> None:
        """Keep what is known of a use now; its units and its phase stay."""
        now = self._uses.get(use.key)
        if now is None or now == use:
            return
        if replace(now, absences=use.absences) == use:  # what comes with every reading is kept in memory only
            self._uses.put(use)
            return
        with self._writing():
            now = self._uses.get(use.key)
            if now is None or now.is_overtaken is not use.is_overtaken:  # then others' holding it was taken for its own
                return
            changed = replace(
                use,
                phase=now.phase,
                since=now.since,
                origin=now.origin,
                units=now.units,
                started=use.started.intersection(now.units),
            )
            self._journal.append(changed)
            self._uses.put(changed)

    def end(self, key: AssignmentKey, origin: Origin, *, seen: UsePhase | None = None) -> Use | None:
        """End the use, for good; returns None if that use is gone already.

        Args:
            seen: the phase that the proof is about. If the use is in another phase by now, another process has just
                answered its Allocate, and the use is not over.
        """
        with self._writing():
            use = self._uses.get(key)
            if use is not None and seen not in (None, use.phase):
                return None
            if use is not None and use.phase is not UsePhase.RELEASING:
                use = replace(use, phase=UsePhase.RELEASING, origin=origin)
                self._journal.append(use)
                self._uses.put(use)
        return use

    def lose(self, key: AssignmentKey, units: Collection[DeviceId]) -> bool:
        """Give ``units`` away unreleased; the use that had them does not count any more.

        Returns:
            False when another process has begun to release them.
        """
        return self._give_away(key, lambda use: self._put_rest(use, use.without(units)))

    def overtake(self, key: AssignmentKey, units: Collection[DeviceId]) -> bool:
        """Give ``units`` away unreleased; the use that had them may go on.

        Returns:
            False when another process has begun to release them.
        """
        return self._give_away(key, lambda use: None if use.is_overtaken else self._overtake(use, units))

    def _give_away(self, key: AssignmentKey, give: Callable[[Use], None]) -> bool:
        with self._writing():
            if (use := self._uses.get(key)) is None:
                return True
            if use.phase is UsePhase.RELEASING:
                return self.is_ours  # `begin` takes them over
            give(use)
        return True

    def _put_rest(self, use: Use, left: Use | None) -> None:
        """Keep the rest in memory: the use to come takes it over in one line, or it stays this one's."""
        self._uses.remove(use.key)
        if left is not None:
            self._uses.put(left)

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
        self._put_rest(use, left)
        self._uses.put(taken)

    def split(self, use: Use, units: Collection[DeviceId]) -> Use:
        """Make a part of a use, its ``units``, a use of its own."""
        part, left = self._part(use, units), use.without(units)
        assert left is not None
        with self._writing():
            self._journal.append(left, part)
            self._uses.put(left)
            self._uses.put(part)
        return part

    def _part(self, use: Use, units: Collection[DeviceId]) -> Use:
        mine = {unit: device for unit, device in use.units.items() if unit in units}
        return replace(use, key=_fresh_key(), units=mine, started=use.started.intersection(units))

    def close_use(self, key: AssignmentKey) -> None:
        """Forget a use that is released, or that never was one."""
        with self._writing():
            self._journal.append(Closed(key))
            self._uses.remove(key)

    def note(self, life: KubeletLife) -> None:
        """Note the life that the kubelet lives."""
        if life != self.life:
            with self._writing():
                self._journal.append(life)
                self.life = life


def _records(content: Content) -> list[Record]:
    return [*([] if content.life is None else [content.life]), *content.uses]


def _fresh_key() -> AssignmentKey:
    """A key as unlike any other as a UUID is; making a UUID takes three times as long, while a kubelet waits."""
    return AssignmentKey(os.urandom(16).hex())
