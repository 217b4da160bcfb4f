"""The allocations of the last seconds, which a kubelet may not have written down yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from plugbay.model.ids import DeviceId, ResourceName

UNWRITTEN_S: Final = 5.0
"""The time within which a kubelet's checkpoint has an allocation: most write it at once, on a slow disk later."""


class RecentAllocations:
    """The devices that containers were given within the last `UNWRITTEN_S` seconds.

    Times are seconds on a clock that never goes back.
    """

    def __init__(self) -> None:
        self._given: dict[tuple[ResourceName, DeviceId], float] = {}

    def note(self, resource: ResourceName, ids: Iterable[DeviceId], now: float) -> None:
        """Take note of an answer to Allocate."""
        self._forget(now)
        self._given.update({(resource, each): now for each in ids})

    def beside(
        self, written: Mapping[ResourceName, Collection[DeviceId]], now: float
    ) -> Mapping[ResourceName, Collection[DeviceId]]:
        """The devices in a kubelet's checkpoint, and those of the last seconds."""
        self._forget(now)
        both = {resource: set(ids) for resource, ids in written.items()}
        for resource, device in self._given:
            both.setdefault(resource, set()).add(device)
        return both

    def _forget(self, now: float) -> None:
        self._given = {each: at for each, at in self._given.items() if now - at < UNWRITTEN_S}
