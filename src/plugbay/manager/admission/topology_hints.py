"""Topology hints for the devices of one resource. Pure.

Source: kubelet 1.36 ``cm/devicemanager/topology_hints.go``; spec 5.5.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from plugbay.allocation.table import NO_DEVICES
from plugbay.manager.state import ManagerState, Resource
from plugbay.model.ids import DeviceId, PodUid, ResourceName
from plugbay.model.requests import ContainerRequest, PodRequest
from plugbay.topology.hints import Hints, generate_hints

_NOTHING: Final = frozenset[DeviceId]()


def container_hints(
    state: ManagerState,
    pod: PodUid,
    container: ContainerRequest,
    resource: ResourceName,
    *,
    reusable: Collection[DeviceId],
    machine: Sequence[int],
) -> Hints:
    """Hint at the NUMA nodes on which a container can have its devices, or keep those it has.

    Args:
        reusable: devices that init containers of the pod leave to this container.
        machine: the machine's NUMA nodes.
    """
    required = container.limits.get(resource)
    if required is None or resource not in state.resources:
        return None
    assignment = state.assignment(pod, container.name, resource)
    held = assignment.devices if assignment else _NOTHING
    return _hints(state.resources[resource], machine, required=required, held=held, reusable=reusable)


def pod_hints(state: ManagerState, pod: PodRequest, resource: ResourceName, *, machine: Sequence[int]) -> Hints:
    """Hint at the NUMA nodes on which all containers of a pod together can have, or keep, their devices."""
    if resource not in state.resources:
        return None
    held = {each for item in state.of_pod(pod.uid) if item.resource == resource for each in item.devices}
    return _hints(state.resources[resource], machine, required=pod.most_at_once(resource), held=held)


def _hints(
    resource: Resource,
    machine: Sequence[int],
    *,
    required: int,
    held: Collection[DeviceId],
    reusable: Collection[DeviceId] = _NOTHING,
) -> Hints:
    table = resource.table or (resource.expired_table if resource.claims else NO_DEVICES)
    if not table.by_node:
        return None
    if held:
        if len(held) != required:
            return ()
        return generate_hints(table.by_node, machine, required=required, available=table.set_of(held))
    free = table.healthy & ~resource.claimed
    if free.bit_count() + len(reusable) < required:
        return ()
    # A reusable device without topology is not counted and rules no node out; with an empty topology it rules out all.
    placed = table.set_of(each for each in reusable if table.has_topology(each))
    return generate_hints(table.by_node, machine, required=required, available=free, reusable=placed)
