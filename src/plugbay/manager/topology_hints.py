"""What the devices of one resource hint at: pure.

Source: kubelet 1.36 ``cm/devicemanager/topology_hints.go``; spec 5.5.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from plugbay.manager.state import Resource
from plugbay.model.ids import DeviceId
from plugbay.topology.hints import Hints, generate_hints

_NOTHING: Final = frozenset[DeviceId]()


def device_hints(
    resource: Resource,
    machine: Sequence[int],
    *,
    required: int,
    held: Collection[DeviceId],
    reusable: Collection[DeviceId] = _NOTHING,
) -> Hints:
    """On which NUMA nodes a container, or a pod, can have its devices.

    Args:
        machine: the NUMA nodes there are.
        held: what it has already; the hints are those for keeping it.
        reusable: what an init container of the pod leaves to this one.
    """
    table = resource.listed
    if not table.by_node:
        return None
    if held:
        if len(held) != required:
            return ()
        return generate_hints(table.by_node, machine, required=required, available=table.set_of(held))
    free = table.healthy & ~resource.claimed
    if free.bit_count() + len(reusable) < required:
        return ()
    # A reusable device without topology is neither counted nor in the way; one whose topology names no node is.
    placed = table.set_of(each for each in reusable if table.has_topology(each))
    return generate_hints(table.by_node, machine, required=required, available=free, reusable=placed)
