"""Answers of the PodResources API: which container holds which devices, and which devices can be given out. Pure.

Everything is sorted; a kubelet's order is random. Source: kubelet 1.36 ``pkg/kubelet/apis/podresources/server_v1.go``,
``cm/devicemanager/pod_devices.go``; spec 8.3-8.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from plugbay.allocation import bitsets
from plugbay.manager.state import NO_NUMA_NODE, HeldDevices, ManagerState, Resource
from plugbay.model.podresources import AllocatableResources, ContainerDevices, ContainerResources, PodResources
from plugbay.model.requests import ContainerKind, PodRequest

_KINDS_V1: Final = (ContainerKind.SIDECAR, ContainerKind.APP)
_KINDS_V1ALPHA1: Final = (ContainerKind.APP,)


class PodResourcesReader:
    """Builds the answers from what the manager holds; made by `DeviceManager.pod_resources`."""

    def __init__(self, state: ManagerState) -> None:
        self._state = state

    def pod_v1(self, pod: PodRequest) -> PodResources:
        """A pod with its sidecars, then its app containers. Devices that only init containers hold do not appear."""
        return self._pod(pod, _KINDS_V1)

    def pod_v1alpha1(self, pod: PodRequest) -> PodResources:
        """A pod with its app containers."""
        return self._pod(pod, _KINDS_V1ALPHA1)

    def allocatable(self) -> AllocatableResources:
        """The healthy devices. CPUs and memory have no manager here, so there are none."""
        resources = self._state.resources
        return AllocatableResources(tuple(each for name in sorted(resources) for each in _healthy(resources[name])))

    def _pod(self, pod: PodRequest, kinds: Iterable[ContainerKind]) -> PodResources:
        containers = [container for kind in kinds for container in pod.containers if container.kind is kind]
        return PodResources(
            pod.namespace,
            pod.name,
            tuple(
                ContainerResources(
                    container.name,
                    tuple(
                        each
                        for assignment in self._state.of_container(pod.uid, container.name)
                        for each in _assigned(assignment)
                    ),
                )
                for container in containers
            ),
        )


def _assigned(assignment: HeldDevices) -> Iterator[ContainerDevices]:
    """Yield one element for each device and NUMA node, as recorded at allocation: a device may be gone now."""
    held = sorted((device_id, node) for node, ids in assignment.by_node.items() for device_id in ids)
    for device_id, node in held:
        yield ContainerDevices(assignment.resource, (device_id,), None if node == NO_NUMA_NODE else (node,))


def _healthy(resource: Resource) -> Iterator[ContainerDevices]:
    """Yield one element for each healthy device and NUMA node, as listed now.

    A device without topology has one element; a device whose topology names no node has none, as with a kubelet.
    """
    for device in bitsets.select(resource.healthy, resource.listed.devices):
        if device.numa_nodes is None:
            yield ContainerDevices(resource.name, (device.id,))
        for node in sorted(device.numa_nodes or ()):
            yield ContainerDevices(resource.name, (device.id,), (node,))
