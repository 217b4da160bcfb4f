"""Choose a container's devices: reused ones first, then aligned, preferred and remaining ones, lowest rank first.

A choice may need the plugin's preference in its middle, so it has two steps: `plan` tells what is settled and what to
ask; `settle` finishes with the plugin's answer, against the table as it is then.

Source: kubelet 1.36 ``cm/devicemanager/manager.go``, ``devicesToAllocate``, ``filterByAffinity``; where the kubelet
picks at random we take the lowest rank.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from plugbay.allocation import bitsets
from plugbay.allocation.table import DeviceTable
from plugbay.errors import InsufficientDevices
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.values import dataclass

NO_NODE: Final = -1
"""A kubelet files devices without NUMA node under this number, together with devices that a plugin places there."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The free devices of a resource, split by NUMA affinity; the three sets do not overlap."""

    aligned: int
    unaligned: int
    no_affinity: int

    @property
    def all(self) -> int:
        return self.aligned | self.unaligned | self.no_affinity


@dataclass(frozen=True, slots=True)
class Preference:
    """The question to the plugin: ``size`` devices out of ``available``, among them all of ``must_include``."""

    available: tuple[DeviceId, ...]
    must_include: tuple[DeviceId, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The first half of a choice.

    Attributes:
        reused: devices that the pod already has and this container takes over; they may not be listed any more.
        candidates: other devices that may be taken.
        missing: number of devices needed besides ``reused``.
        required: the size of the request.
    """

    resource: ResourceName
    reused: tuple[DeviceId, ...]
    candidates: Candidates
    missing: int
    required: int

    @property
    def takes_all_aligned(self) -> bool:
        return self.missing >= self.candidates.aligned.bit_count()

    def question(self, table: DeviceTable) -> Preference | None:
        """The question for a plugin that offers preferred allocation; None when nothing is left to choose.

        A kubelet does not ask when reuse suffices or the aligned devices fit exactly; without NUMA information it
        asks even if every free device is needed.
        """
        aligned = self.candidates.aligned
        if self.missing == 0 or (self.takes_all_aligned and self.missing == aligned.bit_count()):
            return None
        offered, settled = (self.candidates.all, aligned) if self.takes_all_aligned else (aligned, 0)
        return Preference(
            _union(table.ids_of(offered), self.reused),
            _union(table.ids_of(settled), self.reused),
            self.required,
        )


def plan(
    resource: ResourceName, table: DeviceTable, *, claimed: int, required: int, reusable: Iterable[DeviceId], mask: int
) -> Plan:
    """Make the first step of a choice.

    Args:
        claimed: devices that pods hold or are being given.
        required: how many devices the container asks for, at least one.
        reusable: devices of the pod's finished init containers; neither health nor presence is checked.
        mask: set of the NUMA nodes to align with; 0 for none.

    Raises:
        InsufficientDevices: too few are free.
    """
    reused = tuple(sorted(reusable)[:required])
    missing = required - len(reused)
    available = table.healthy & ~claimed
    if missing > available.bit_count():
        raise InsufficientDevices(resource, missing, available.bit_count())
    return Plan(resource, reused, split_by_affinity(table, available, mask), missing, required)


def settle(plan: Plan, table: DeviceTable, *, claimed: int, preferred: Iterable[DeviceId]) -> tuple[DeviceId, ...]:
    """Make the second step: return the devices, the reused ones first, then the others in rank order.

    Devices that were taken or vanished since `plan` are passed over. In a preference only usable devices count; if it
    has too many, the lowest ranks are used, and if too few, it is filled up.

    Raises:
        InsufficientDevices: too few are left.
    """
    free = table.healthy & ~claimed
    wish = table.set_of(preferred)
    aligned, everything = plan.candidates.aligned & free, plan.candidates.all & free
    order: tuple[int, ...]
    if plan.takes_all_aligned:
        order = (aligned, everything & wish, plan.candidates.unaligned & free, everything)
    else:
        order = (aligned & wish, aligned, everything)
    picked = 0
    for choice in order:
        picked |= bitsets.take_lowest(choice & ~picked, plan.missing - picked.bit_count())
    if picked.bit_count() < plan.missing:
        raise InsufficientDevices(plan.resource, plan.missing, everything.bit_count())
    return (*plan.reused, *table.ids_of(picked))


def split_by_affinity(table: DeviceTable, available: int, mask: int) -> Candidates:
    """Split free devices by the NUMA nodes in ``mask``: on one of these nodes, on other nodes only, on no node."""
    if mask == 0 or not table.by_node:
        return Candidates(0, 0, available)
    aligned = elsewhere = 0
    for node, devices in table.by_node.items():
        if 0 <= node and mask >> node & 1:
            aligned |= devices
        elif node != NO_NODE:
            elsewhere |= devices
    return Candidates(available & aligned, available & elsewhere & ~aligned, available & ~aligned & ~elsewhere)


def _union(ids: tuple[DeviceId, ...], reused: tuple[DeviceId, ...]) -> tuple[DeviceId, ...]:
    return tuple(sorted({*ids, *reused})) if reused else ids
