"""Units that have vanished from the machine: they stay listed for a while. Pure.

A kubelet shows a device that is not in the list as if it were well, so a pod would not be told that its device was
pulled out. One that a pod holds stays for as long as the pod does, one that none holds for its grace time. A network
interface that a pod holds is in the pod, where the host does not see it: it is well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.generic.selecting.units import Unit
from plugbay.values import dataclass

Held: TypeAlias = Mapping[ResourceName, Collection[DeviceId]]
"""The IDs of devices that pods hold, by resource."""
Units: TypeAlias = Mapping[ResourceName, tuple[Unit, ...]]

HELD_AGAIN_S: Final = 10.0
"""The time after which it is asked again whether a pod holds a unit that one did hold."""


@dataclass(frozen=True, slots=True)
class VanishedUnit:
    """A unit that is listed although it is gone.

    Attributes:
        until: when it leaves the list if no pod holds it, in the loop's time.
        due: when it has to be asked whether a pod holds it.
        is_in_pod: whether it is gone because it has moved into the pod that holds it.
    """

    unit: Unit
    until: float
    due: float
    is_in_pod: bool = False


class VanishedUnits:
    """The units that have vanished, from one look to the next."""

    def __init__(self) -> None:
        self._vanished: dict[tuple[ResourceName, DeviceId], VanishedUnit] = {}

    def miss(self, before: Units, now: Units, *, moment: float, keeps: Callable[[Unit], bool]) -> None:
        """Take over a look.

        Args:
            before: what was there at the look before.
            keeps: whether the rules that made a unit are still in force; otherwise it goes without a word.
        """
        changed = {name for name, units in before.items() if now.get(name) is not units}
        there = {(name, unit.id) for name in changed | self.resources() for unit in now.get(name, ())}
        fresh = [
            unit
            for name in sorted(changed)
            for unit in before[name]
            if (name, unit.id) not in there and (name, unit.id) not in self._vanished and keeps(unit)
        ]
        for unit in fresh:
            until = moment + unit.group.health.grace_s
            due = moment if unit.interfaces else until
            self._vanished[unit.resource, unit.id] = VanishedUnit(unit, until, due)
        self._vanished = {key: each for key, each in self._vanished.items() if key not in there and keeps(each.unit)}

    def is_due(self, moment: float) -> bool:
        """Whether it has to be asked which devices pods hold."""
        return any(each.due <= moment for each in self._vanished.values())

    def expire(self, moment: float, held: Held | None) -> list[Unit]:
        """Let those go whose time is over and that no pod holds; returns them.

        Args:
            held: what pods hold; None when it cannot be known, then any may be held.
        """
        left = []
        for (name, id), each in list(self._vanished.items()):
            if each.due > moment:
                continue
            if held is None:
                self._vanished[name, id] = replace(each, due=moment + HELD_AGAIN_S)
            elif id in held.get(name, ()):
                until = moment + each.unit.group.health.grace_s  # it begins when the pod is gone
                is_in_pod = bool(each.unit.interfaces)
                self._vanished[name, id] = VanishedUnit(each.unit, until, moment + HELD_AGAIN_S, is_in_pod)
            elif each.until > moment and each.unit.interfaces:
                self._vanished[name, id] = VanishedUnit(each.unit, each.until, each.until)
            else:
                del self._vanished[name, id]
                left.append(each.unit)
        return left

    def by_resource(self) -> Mapping[ResourceName, Sequence[VanishedUnit]]:
        """Those that are listed still."""
        found: dict[ResourceName, list[VanishedUnit]] = {}
        for (name, _), each in self._vanished.items():
            found.setdefault(name, []).append(each)
        return found

    def resources(self) -> frozenset[ResourceName]:
        """The resources that have some."""
        return frozenset(name for name, _ in self._vanished)

    def next_due(self) -> float | None:
        """When the next one has to be looked at again; None while there is none."""
        return min((each.due for each in self._vanished.values()), default=None)
