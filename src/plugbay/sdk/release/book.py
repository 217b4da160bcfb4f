"""What becomes of the uses of one resource, step by step."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from plugbay.errors import DevicesNotReleased
from plugbay.model.assignments import AssignmentKey, Origin
from plugbay.model.ids import DeviceId
from plugbay.sdk.release.kept import KeptUses
from plugbay.sdk.release.records import Answered, Closed, Record
from plugbay.sdk.release.uses import Life, Phase, Reading, Use, after

OTHER_RELEASES: Final = "another process of this plugin releases them"


class Book(KeptUses):
    """Each change takes in first what another process has written, so that none undoes the other's."""

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
            at = asyncio.get_running_loop().time()
            self._journal.append(Answered(key, at))
            self._ledger.put(replace(use, phase=Phase.OPEN, since=at))
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
                since=now.since,
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


def _fresh_key() -> AssignmentKey:
    """As unlike any other as a UUID is; making one of those takes three times as long, while a kubelet waits."""
    return AssignmentKey(os.urandom(16).hex())
