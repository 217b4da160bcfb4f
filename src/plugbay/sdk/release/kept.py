"""The uses of one resource, in memory and in the journal alike: nothing changes in one that is not in the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum, auto
from pathlib import Path
from typing import Final

from plugbay.errors import PathUnusable
from plugbay.model.assignments import AssignmentKey
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.sdk.release.journal import Journal
from plugbay.sdk.release.records import Content, Record
from plugbay.sdk.release.recovery import as_found, is_of_earlier_boot
from plugbay.sdk.release.uses import Ledger, Life, Phase, Use

logger = logging.getLogger(__name__)

_TO_DISK_S: Final = 0.05
"""Records that come this close together are put on the disk at once."""


class Trouble(Enum):
    """What to do when nothing can be kept, because the disk is full for instance."""

    RAISED = auto()
    """For who insists that devices are released."""
    LOGGED = auto()


class KeptUses:
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
                self._journal.remove_unfinished()
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

    # --- the journal, and what is known by it -----------------------------------------------------------------------

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


def _records(content: Content) -> list[Record]:
    return [*([] if content.life is None else [content.life]), *content.uses]
