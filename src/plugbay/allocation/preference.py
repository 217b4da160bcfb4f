"""The start of every policy of preferred allocation: the devices in rank order, and those that are settled already."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from plugbay.model.devices import Device
from plugbay.model.ids import DeviceId
from plugbay.model.sharing import physical_id
from plugbay.values import dataclass

Key = Callable[[Device], Hashable]
"""Gives the group of a device; equal keys are one group."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request for a preference, in rank order.

    Attributes:
        settled: the devices that must be included.
        free: the other devices, by ID.
        missing: how many of ``free`` are to be chosen; never more than there are.
    """

    settled: tuple[Device, ...]
    free: tuple[Device, ...]
    missing: int

    @classmethod
    def of(cls, available: Sequence[Device], must_include: Sequence[Device], size: int) -> Question:
        settled = {device.id: device for device in must_include}
        free = {device.id: device for device in available if device.id not in settled}
        missing = max(0, min(size - len(settled), len(free)))
        return cls(_ranked(settled), _ranked(free), missing)

    def groups(self, by: Key) -> dict[Hashable, list[int]]:
        """The ranks of the free devices of each group, ascending; groups in the order of their first device."""
        groups: dict[Hashable, list[int]] = {}
        for rank, device in enumerate(self.free):
            groups.setdefault(by(device), []).append(rank)
        return groups

    def answer(self, ranks: Sequence[int]) -> list[Device]:
        """The settled devices and those at ``ranks``, in the order of their IDs."""
        chosen = (*self.settled, *(self.free[rank] for rank in ranks))
        return sorted(chosen, key=lambda device: device.id)


def _ranked(devices: dict[DeviceId, Device]) -> tuple[Device, ...]:
    return tuple(devices[device_id] for device_id in sorted(devices))


def numa_node(device: Device) -> int | None:
    """Group by NUMA node: the lowest node of a device; None for a device without."""
    return min(device.numa_nodes, default=None)


def physical_device(device: Device) -> str:
    """Group by the device behind a replica."""
    return physical_id(device.id)
