"""Topology hints for the devices of one resource. Pure.

A pod with running containers is judged only for what it still has to be given. A kubelet judges it again by the devices
that it holds, and ends it if the list of devices has changed since.

Source: kubelet 1.36 ``cm/devicemanager/topology_hints.go``; spec 5.5.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from plugbay.allocation.table import NO_DEVICES
from plugbay.manager.admission.rules import Survival, survival_of
from plugbay.manager.state import HeldDevices, ManagerState, Resource
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.requests import ContainerRequest, PodRequest
from plugbay.topology.hints import Hints, generate_hints

_NOTHING: Final = frozenset[DeviceId]()


def container_hints(
    state: ManagerState,
    pod: PodUid,
    container: ContainerRequest,
    resource: ResourceName,
    *,
    running: frozenset[ContainerName],
    reusable: Collection[DeviceId],
    machine: Sequence[int],
) -> Hints:
    """Hint at the NUMA nodes on which a container can have its devices, or keep those it has.

    Args:
        running: containers of the pod whose process outlived a restart of the node.
        reusable: devices that init containers of the pod leave to this container.
        machine: the machine's NUMA nodes.
    """
    required = container.limits.get(resource)
    if required is None or resource not in state.resources:
        return None
    assignment = state.assignment(pod, container.name, resource)
    if running and not _has_to_get(container, assignment, running):
        return None
    held = assignment.devices if assignment else _NOTHING
    return _hints(state.resources[resource], machine, required=required, held=held, reusable=reusable)


def pod_hints(
    state: ManagerState,
    pod: PodRequest,
    resource: ResourceName,
    *,
    running: frozenset[ContainerName],
    machine: Sequence[int],
) -> Hints:
    """Hint at the NUMA nodes on which all containers of a pod together can have, or keep, their devices.

    Devices that some containers of a running pod still have to get must lie with those that the pod holds.
    """
    if resource not in state.resources:
        return None
    found = state.resources[resource]
    required = pod.most_at_once(resource)
    held = {each for item in state.of_pod(pod.uid) if item.resource == resource for each in item.devices}
    if not running:
        return _hints(found, machine, required=required, held=held)
    asking = [each for each in pod.containers if each.limits.get(resource)]
    if any(_has_to_get(each, state.assignment(pod.uid, each.name, resource), running) for each in asking):
        return _hints(found, machine, required=required, reusable=held)
    return None


def _has_to_get(container: ContainerRequest, held: HeldDevices | None, running: frozenset[ContainerName]) -> bool:
    return held is None and survival_of(container, running) is Survival.NEW


def _hints(
    resource: Resource,
    machine: Sequence[int],
    *,
    required: int,
    held: Collection[DeviceId] = _NOTHING,
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
