"""Messages of the PodResources API, versions v1 and v1alpha1, to values and back."""

from __future__ import annotations

from plugbay.model.ids import ContainerName, DeviceId, ResourceName
from plugbay.model.podresources import (
    ClaimResource,
    ContainerDevices,
    ContainerMemory,
    ContainerResources,
    DynamicResource,
    PodResources,
)
from plugbay.wire.generated import podresources_v1_pb2 as v1
from plugbay.wire.generated import podresources_v1alpha1_pb2 as v1alpha1

# --- v1 -------------------------------------------------------------------------------------------------------------


def pod_to_v1(pod: PodResources) -> v1.PodResources:
    return v1.PodResources(
        name=pod.name,
        namespace=pod.namespace,
        containers=[
            v1.ContainerResources(
                name=container.name,
                devices=map(devices_to_v1, container.devices),
                cpu_ids=container.cpu_ids,
                memory=map(memory_to_v1, container.memory),
                dynamic_resources=map(_dynamic_to_v1, container.dynamic_resources),
            )
            for container in pod.containers
        ],
        cpu_ids=pod.cpu_ids,
        memory=map(memory_to_v1, pod.memory),
    )


def pod_from_v1(pod: v1.PodResources) -> PodResources:
    return PodResources(
        pod.namespace,
        pod.name,
        tuple(
            ContainerResources(
                ContainerName(container.name),
                tuple(map(devices_from_v1, container.devices)),
                tuple(container.cpu_ids),
                tuple(map(memory_from_v1, container.memory)),
                tuple(map(_dynamic_from_v1, container.dynamic_resources)),
            )
            for container in pod.containers
        ),
        tuple(pod.cpu_ids),
        tuple(map(memory_from_v1, pod.memory)),
    )


def devices_to_v1(devices: ContainerDevices) -> v1.ContainerDevices:
    return v1.ContainerDevices(
        resource_name=devices.resource, device_ids=devices.device_ids, topology=_topology(devices.numa_nodes)
    )


def devices_from_v1(devices: v1.ContainerDevices) -> ContainerDevices:
    return ContainerDevices(
        ResourceName(devices.resource_name), tuple(map(DeviceId, devices.device_ids)), _numa_nodes(devices)
    )


def memory_to_v1(memory: ContainerMemory) -> v1.ContainerMemory:
    return v1.ContainerMemory(memory_type=memory.memory_type, size=memory.size, topology=_topology(memory.numa_nodes))


def memory_from_v1(memory: v1.ContainerMemory) -> ContainerMemory:
    return ContainerMemory(memory.memory_type, memory.size, _numa_nodes(memory))


def _topology(numa_nodes: tuple[int, ...] | None) -> v1.TopologyInfo | None:
    """None leaves the field out, which differs from a topology without nodes."""
    return None if numa_nodes is None else v1.TopologyInfo(nodes=[v1.NUMANode(ID=node) for node in numa_nodes])


def _numa_nodes(message: v1.ContainerDevices | v1.ContainerMemory) -> tuple[int, ...] | None:
    return tuple(node.ID for node in message.topology.nodes) if message.HasField("topology") else None


def _dynamic_to_v1(dynamic: DynamicResource) -> v1.DynamicResource:
    return v1.DynamicResource(
        claim_name=dynamic.claim_name,
        claim_namespace=dynamic.claim_namespace,
        claim_resources=[
            v1.ClaimResource(
                cdi_devices=[v1.CDIDevice(name=name) for name in claimed.cdi_devices],
                driver_name=claimed.driver_name,
                pool_name=claimed.pool_name,
                device_name=claimed.device_name,
                share_id=claimed.share_id,
            )
            for claimed in dynamic.claim_resources
        ],
    )


def _dynamic_from_v1(dynamic: v1.DynamicResource) -> DynamicResource:
    return DynamicResource(
        dynamic.claim_name,
        dynamic.claim_namespace,
        tuple(
            ClaimResource(
                claimed.driver_name,
                claimed.pool_name,
                claimed.device_name,
                tuple(device.name for device in claimed.cdi_devices),
                claimed.share_id if claimed.HasField("share_id") else None,
            )
            for claimed in dynamic.claim_resources
        ),
    )


# --- v1alpha1 -------------------------------------------------------------------------------------------------------


def pod_to_v1alpha1(pod: PodResources) -> v1alpha1.PodResources:
    return v1alpha1.PodResources(
        name=pod.name,
        namespace=pod.namespace,
        containers=[
            v1alpha1.ContainerResources(
                name=container.name,
                devices=[
                    v1alpha1.ContainerDevices(resource_name=devices.resource, device_ids=devices.device_ids)
                    for devices in container.devices
                ],
            )
            for container in pod.containers
        ],
    )


def pod_from_v1alpha1(pod: v1alpha1.PodResources) -> PodResources:
    return PodResources(
        pod.namespace,
        pod.name,
        tuple(
            ContainerResources(
                ContainerName(container.name),
                tuple(
                    ContainerDevices(ResourceName(devices.resource_name), tuple(map(DeviceId, devices.device_ids)))
                    for devices in container.devices
                ),
            )
            for container in pod.containers
        ),
    )
