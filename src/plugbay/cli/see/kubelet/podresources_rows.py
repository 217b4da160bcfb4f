"""Answers of a PodResources service as tables and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from plugbay.cli.printing.table import NONE
from plugbay.model.podresources import (
    ClaimResource,
    ContainerDevices,
    ContainerMemory,
    ContainerResources,
    DynamicResource,
    PodResources,
    distinct_devices,
)

HEADER: Final = ("NAMESPACE", "POD", "CONTAINER", "RESOURCE", "DEVICES", "NUMA")
WIDE_HEADER: Final = (*HEADER, "CPUS", "MEMORY", "CLAIMS")


def rows(pods: Iterable[PodResources]) -> Iterator[tuple[str, ...]]:
    """One row for each container and resource; containers without devices have none."""
    for pod in _sorted(pods):
        for container in pod.containers:
            for resource, devices in distinct_devices(container.devices).items():
                numa = {node for nodes in devices.values() for node in nodes}
                yield pod.namespace, pod.name, container.name, resource, ",".join(devices), _joined(sorted(numa))


def wide_rows(pods: Iterable[PodResources]) -> Iterator[tuple[str, ...]]:
    """The rows of `rows`, with CPUs, memory and claims as well.

    Every container has at least one row, and before them its pod, if that has CPUs or memory as a whole.
    """
    for pod in _sorted(pods):
        if pod.cpu_ids or pod.memory:
            yield (pod.namespace, pod.name, NONE, NONE, NONE, NONE, *_exclusive(pod), NONE)
        for container in pod.containers:
            claims = _joined(f"{each.claim_namespace}/{each.claim_name}" for each in container.dynamic_resources)
            nothing = (pod.namespace, pod.name, container.name, NONE, NONE, NONE)
            for row in list(rows([PodResources(pod.namespace, pod.name, (container,))])) or [nothing]:
                yield (*row, *_exclusive(container), claims)


def as_json(pods: Iterable[PodResources]) -> dict[str, Any]:
    """The v1 List answer, with protobuf's JSON names; what is empty is left out, and numbers are numbers."""
    return {"podResources": [_pod(pod) for pod in pods]}


def _sorted(pods: Iterable[PodResources]) -> list[PodResources]:
    return sorted(pods, key=lambda each: (each.namespace, each.name))


def _exclusive(owner: PodResources | ContainerResources) -> tuple[str, str]:
    """The CPUs and the memory that a pod or a container has to itself."""
    memory = (f"{each.memory_type}={each.size}" for each in owner.memory)
    return _joined(sorted(owner.cpu_ids)), _joined(memory)


def _joined(values: Iterable[object]) -> str:
    return ",".join(map(str, values)) or NONE


def _pod(pod: PodResources) -> Mapping[str, Any]:
    return {
        "name": pod.name,
        "namespace": pod.namespace,
        "containers": [_container(container) for container in pod.containers],
        **_filled(cpuIds=list(pod.cpu_ids), memory=[_memory(each) for each in pod.memory]),
    }


def _container(container: ContainerResources) -> Mapping[str, Any]:
    return _filled(
        name=container.name,
        devices=[_devices(each) for each in container.devices],
        cpuIds=list(container.cpu_ids),
        memory=[_memory(each) for each in container.memory],
        dynamicResources=[_dynamic(each) for each in container.dynamic_resources],
    )


def _devices(devices: ContainerDevices) -> Mapping[str, Any]:
    return _filled(
        resourceName=devices.resource, deviceIds=list(devices.device_ids), topology=_topology(devices.numa_nodes)
    )


def _memory(memory: ContainerMemory) -> Mapping[str, Any]:
    return _filled(memoryType=memory.memory_type, size=memory.size, topology=_topology(memory.numa_nodes))


def _topology(numa_nodes: Sequence[int] | None) -> Mapping[str, Any] | None:
    return None if numa_nodes is None else {"nodes": [{"ID": node} for node in numa_nodes]}


def _dynamic(dynamic: DynamicResource) -> Mapping[str, Any]:
    return _filled(
        claimName=dynamic.claim_name,
        claimNamespace=dynamic.claim_namespace,
        claimResources=[_claimed(each) for each in dynamic.claim_resources],
    )


def _claimed(claimed: ClaimResource) -> Mapping[str, Any]:
    return _filled(
        cdiDevices=[{"name": name} for name in claimed.cdi_devices],
        driverName=claimed.driver_name,
        poolName=claimed.pool_name,
        deviceName=claimed.device_name,
        shareId=claimed.share_id,
    )


def _filled(**fields: Any) -> Mapping[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, [])}
