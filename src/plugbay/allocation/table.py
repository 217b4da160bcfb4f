"""The devices of one resource, ranked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from plugbay.allocation import bitsets
from plugbay.model.devices import ListedDevice
from plugbay.model.ids import DeviceId
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """A plugin's last list, with the sets over ranks that allocation needs.

    Attributes:
        devices: by rank, that is in the order of their IDs.
        ids: their IDs, by rank; made once, because every question to a plugin may take them all.
        ranks: device ID to rank.
        healthy: set of the healthy devices.
        by_node: NUMA node to the set of its devices; a device with several nodes is in several sets.
    """

    devices: tuple[ListedDevice, ...]
    ids: tuple[DeviceId, ...]
    ranks: Mapping[DeviceId, int]
    healthy: int
    by_node: Mapping[int, int]

    @classmethod
    def of(cls, devices: Iterable[ListedDevice]) -> DeviceTable:
        """Make the table of a complete list. If an ID occurs twice, its last occurrence counts.

        The kubelet counts such a device once per occurrence (spec 3.2 item 3), so that its capacity can exceed the
        number of devices.
        """
        unique = {device.id: device for device in devices}
        ids = tuple(sorted(unique))
        ranked = tuple(unique[device_id] for device_id in ids)
        return cls(
            ranked,
            ids,
            {device_id: rank for rank, device_id in enumerate(ids)},
            bitsets.from_flags(device.is_healthy for device in ranked),
            _by_node(ranked),
        )

    def with_changes(self, changed: Sequence[ListedDevice]) -> DeviceTable:
        """The table after known devices changed health or topology."""
        devices = list(self.devices)
        healthy = self.healthy
        moved = False
        for device in changed:
            rank = self.ranks[device.id]
            moved = moved or devices[rank].numa_nodes != device.numa_nodes
            devices[rank] = device
            healthy = healthy | (1 << rank) if device.is_healthy else healthy & ~(1 << rank)
        ranked = tuple(devices)
        return DeviceTable(ranked, self.ids, self.ranks, healthy, _by_node(ranked) if moved else self.by_node)

    def set_of(self, ids: Iterable[DeviceId]) -> int:
        """The ranks of ``ids``; IDs not in the list are left out."""
        return bitsets.from_ranks(self.ranks[device_id] for device_id in ids if device_id in self.ranks)

    def ids_of(self, bits: int) -> tuple[DeviceId, ...]:
        """The IDs of a set, in rank order."""
        return tuple(bitsets.select(bits, self.ids))

    def numa_nodes(self, device_id: DeviceId) -> tuple[int, ...]:
        """NUMA nodes of a device; empty for a device without, and for a device that is not listed (any more)."""
        rank = self.ranks.get(device_id)
        return (self.devices[rank].numa_nodes or ()) if rank is not None else ()

    def has_topology(self, device_id: DeviceId) -> bool:
        """Whether the plugin gives a topology for a device, even one without nodes."""
        rank = self.ranks.get(device_id)
        return rank is not None and self.devices[rank].numa_nodes is not None


NO_DEVICES = DeviceTable((), (), {}, 0, {})


def _by_node(devices: Sequence[ListedDevice]) -> Mapping[int, int]:
    """Group devices by node, in one pass: a plugin may name as many nodes as devices."""
    ranks: dict[int, list[int]] = {}
    for rank, device in enumerate(devices):
        for node in device.numa_nodes or ():
            ranks.setdefault(node, []).append(rank)
    return {node: bitsets.from_ranks(ranks[node]) for node in sorted(ranks)}
