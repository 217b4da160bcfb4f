"""Admit one pod to one resource: choose, claim and Allocate devices, container by container."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from plugbay.allocation.choose import plan, settle
from plugbay.errors import EndpointStopped, UnknownEndpoint
from plugbay.manager.admission.rules import ReuseList, Wish, missing_devices, wish_of
from plugbay.manager.admission.topology_hints import container_hints, pod_hints
from plugbay.manager.admission.transaction import PodTransaction
from plugbay.manager.crash_points import CrashPoint, passed
from plugbay.manager.endpoint import Endpoint
from plugbay.manager.endpoints.endpoints import Endpoints
from plugbay.manager.state import NO_NUMA_NODE, HeldDevices, ManagerState, Resource, Stopped
from plugbay.model.ids import ContainerName, DeviceId, ResourceName
from plugbay.model.requests import ContainerRequest, PodRequest
from plugbay.topology.hints import Hints
from plugbay.topology.masks import Mask

logger = logging.getLogger(__name__)


class DevicePart:
    """One pod's share of one resource while the pod is admitted. Lasts as long as the admission.

    Args:
        running: containers whose process outlived a restart of the node.
        transaction: takes what is claimed and assigned.
        numa_nodes: the machine's NUMA nodes.
    """

    def __init__(
        self,
        name: ResourceName,
        pod: PodRequest,
        running: frozenset[ContainerName],
        transaction: PodTransaction,
        *,
        state: ManagerState,
        endpoints: Endpoints,
        numa_nodes: Sequence[int],
    ) -> None:
        self.name = name
        self._pod = pod
        self._running = running
        self._transaction = transaction
        self._state = state
        self._endpoints = endpoints
        self._numa_nodes = numa_nodes
        self._reuse = ReuseList()

    def container_hints(self, container: ContainerRequest) -> Hints:
        """The NUMA nodes where ``container`` can have its devices; see `plugbay.manager.admission.topology.PodPart`."""
        return container_hints(
            self._state,
            self._pod.uid,
            container,
            self.name,
            running=self._running,
            reusable=self._reuse.devices,
            machine=self._numa_nodes,
        )

    def pod_hints(self) -> Hints:
        """The NUMA nodes where the pod can have its devices."""
        return pod_hints(self._state, self._pod, self.name, running=self._running, machine=self._numa_nodes)

    async def allocate(self, container: ContainerRequest, affinity: Mask) -> None:
        """Give ``container`` its devices. Call this for each container, in admission order.

        Args:
            affinity: NUMA nodes whose devices are taken first; with none, devices are taken wherever they are.

        Raises:
            AdmissionError: with the kubelet's text.
        """
        held = self._state.assignment(self._pod.uid, container.name, self.name)
        wish = wish_of(self._pod.uid, container, self.name, held=held, running=self._running)
        if wish is None:
            return
        devices = held.devices if held else frozenset[DeviceId]()
        resource = self._state.resources.get(self.name)
        if missing_devices(wish, resource) and resource is not None:
            devices = frozenset(await self._obtain(resource, wish, affinity))
        self._reuse.after(container.kind, devices)

    async def _obtain(self, resource: Resource, wish: Wish, affinity: Mask) -> tuple[DeviceId, ...]:
        devices = await self._choose(resource, wish.required, affinity)
        self._transaction.claim(resource, devices)
        endpoint = self._endpoint(resource)
        async with self._transaction.intents.allocating(resource, devices):
            passed(CrashPoint.ALLOCATING)
            response = await self._endpoints.allocate(endpoint, devices)
            passed(CrashPoint.ALLOCATED)
        self._transaction.assignments.append(
            HeldDevices(wish.pod, wish.container, wish.resource, _by_node(resource, devices), response)
        )
        logger.info(
            "allocated %s of %s to pod %s, container %s", ", ".join(devices), resource.name, wish.pod, wish.container
        )
        return devices

    async def _choose(self, resource: Resource, required: int, affinity: Mask) -> tuple[DeviceId, ...]:
        half = plan(
            resource.name,
            resource.listed,
            claimed=resource.claimed,
            required=required,
            reusable=self._reuse.devices,
            mask=affinity,
        )
        preferred: tuple[DeviceId, ...] = ()
        endpoint = self._endpoint(resource)
        if endpoint.options.get_preferred_allocation_available and (question := half.question(resource.listed)):
            preferred = await endpoint.preferred_allocation(question)
        return settle(half, resource.listed, claimed=resource.claimed, preferred=preferred)

    def _endpoint(self, resource: Resource) -> Endpoint:
        endpoint = self._endpoints.active(resource.name)
        if endpoint is None:
            if isinstance(resource.endpoint, Stopped):
                raise EndpointStopped(resource.name, resource.endpoint.since.isoformat())
            raise UnknownEndpoint(resource.name)
        return endpoint


def _by_node(resource: Resource, devices: tuple[DeviceId, ...]) -> Mapping[int, tuple[DeviceId, ...]]:
    """Group devices by NUMA node as listed now; a device that vanished during the call counts as without a node."""
    grouped: dict[int, list[DeviceId]] = {}
    for device_id in devices:
        for node in resource.listed.numa_nodes(device_id) or (NO_NUMA_NODE,):
            grouped.setdefault(node, []).append(device_id)
    return {node: tuple(ids) for node, ids in sorted(grouped.items())}
