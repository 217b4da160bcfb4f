"""The answers of a kubelet's PodResources service: which containers hold which devices.

The names are those of the API's messages. Source: kubelet 1.37 ``pkg/kubelet/apis/podresources/v1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from plugbay.model.ids import ContainerName, DeviceId, ResourceName
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """Devices of one resource. Kubelets send an element for each device and NUMA node: count with `distinct_devices`.

    Attributes:
        numa_nodes: None when the kubelet tells no topology.
    """

    resource: ResourceName
    device_ids: tuple[DeviceId, ...]
    numa_nodes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ContainerMemory:
    """Memory or huge pages that a container has to itself; ``size`` in bytes."""

    memory_type: str
    size: int
    numa_nodes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ClaimResource:
    """One device of a claim of Dynamic Resource Allocation."""

    driver_name: str
    pool_name: str
    device_name: str
    cdi_devices: tuple[str, ...] = ()
    share_id: str | None = None


@dataclass(frozen=True, slots=True)
class DynamicResource:
    """A claim of Dynamic Resource Allocation that a container uses."""

    claim_name: str
    claim_namespace: str
    claim_resources: tuple[ClaimResource, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """The devices of one container.

    Attributes:
        cpu_ids: exclusive CPUs; empty unless the CPU manager gave the container some.
    """

    name: ContainerName
    devices: tuple[ContainerDevices, ...] = ()
    cpu_ids: tuple[int, ...] = ()
    memory: tuple[ContainerMemory, ...] = ()
    dynamic_resources: tuple[DynamicResource, ...] = ()


@dataclass(frozen=True, slots=True)
class PodResources:
    """A pod with its sidecars and app containers; init containers do not appear.

    Attributes:
        cpu_ids: exclusive CPUs of the pod as a whole, those of its containers included; what no container has is shared
            by the others in the pod. Empty unless the pod has resources of its own, and before 1.37.
        memory: likewise.

    Source: Kubernetes 1.37, pull request 138738 and KEP-5526.
    """

    namespace: str
    name: str
    containers: tuple[ContainerResources, ...] = ()
    cpu_ids: tuple[int, ...] = ()
    memory: tuple[ContainerMemory, ...] = ()


@dataclass(frozen=True, slots=True)
class AllocatableResources:
    """The resources a node can give to pods, in use or not: healthy devices, CPUs and memory."""

    devices: tuple[ContainerDevices, ...] = ()
    cpu_ids: tuple[int, ...] = ()
    memory: tuple[ContainerMemory, ...] = ()


class HeldDevice(NamedTuple):
    """One device, and the container that holds it."""

    namespace: str
    pod: str
    container: ContainerName
    resource: ResourceName
    device_id: DeviceId
    numa_nodes: tuple[int, ...]


def held_devices(pods: Iterable[PodResources]) -> Iterator[HeldDevice]:
    """Every device that a container holds, each once for a container."""
    for pod in pods:
        for container in pod.containers:
            for resource, devices in distinct_devices(container.devices).items():
                for device_id, nodes in devices.items():
                    yield HeldDevice(pod.namespace, pod.name, container.name, resource, device_id, nodes)


def distinct_devices(
    devices: Iterable[ContainerDevices],
) -> dict[ResourceName, dict[DeviceId, tuple[int, ...]]]:
    """List each device once, by resource, with all its NUMA nodes; everything is sorted."""
    nodes: dict[tuple[ResourceName, DeviceId], set[int]] = {}
    for element in devices:
        for device_id in element.device_ids:
            nodes.setdefault((element.resource, device_id), set()).update(element.numa_nodes or ())
    by_resource: dict[ResourceName, dict[DeviceId, tuple[int, ...]]] = {}
    for resource, device_id in sorted(nodes):
        by_resource.setdefault(resource, {})[device_id] = tuple(sorted(nodes[resource, device_id]))
    return by_resource
