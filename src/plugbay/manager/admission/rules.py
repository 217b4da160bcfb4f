"""Decide about one container and one resource at admission. Pure.

Source: kubelet 1.36 ``cm/devicemanager/manager.go``, ``devicesToAllocate``; spec 4.5 (order of checks), 4.3 (reuse),
4.7 (restart).
"""

from __future__ import annotations

from enum import Enum

from plugbay.errors import (
    ChangedRequest,
    ExpiredResource,
    NoHealthyDevices,
    PreviousDevicesUnhealthy,
    UnregisteredResource,
)
from plugbay.manager.state import Expired, HeldDevices, Resource
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest
from plugbay.values import dataclass


class Survival(Enum):
    """The state that a container was in when the node started."""

    NEW = "new"
    """The container has no process from before: all checks apply."""
    RUNNING = "running"
    """The container's process outlived the node: it keeps its devices, whatever the plugin's state."""
    COMPLETED_INIT = "completed init"
    """An init container that is done, in a pod whose later containers still run.

    A kubelet runs the checks for it and so rejects the running pod (issues #124345, #138446); it needs no device.
    """


@dataclass(frozen=True, slots=True)
class Wish:
    """One container's request for one resource.

    Attributes:
        held: what the container has of the resource already, from an earlier admission.
    """

    pod: PodUid
    container: ContainerName
    resource: ResourceName
    required: int
    survival: Survival
    held: HeldDevices | None


def wish_of(
    pod: PodUid,
    container: ContainerRequest,
    resource: ResourceName,
    *,
    held: HeldDevices | None,
    running: frozenset[ContainerName],
) -> Wish | None:
    """The container's request for one resource; None if it does not name the resource."""
    required = container.limits.get(resource)
    if required is None:
        return None
    return Wish(pod, container.name, resource, required, survival_of(container, running), held)


def survival_of(container: ContainerRequest, running: frozenset[ContainerName]) -> Survival:
    if container.name in running:
        return Survival.RUNNING
    if container.kind is ContainerKind.INIT and running:
        return Survival.COMPLETED_INIT
    return Survival.NEW


def missing_devices(wish: Wish, resource: Resource | None) -> int:
    """The number of devices the container still needs; 0 if there is nothing to do.

    Raises:
        ChangedRequest, UnregisteredResource, NoHealthyDevices, PreviousDevicesUnhealthy: checks 1, 4, 5 and 6 of the
            kubelet, in its order.
        ExpiredResource: a case that check 4 passes over in silence.
    """
    needed = wish.required
    if wish.held is not None:
        before = len(wish.held.devices)
        if before != wish.required:
            raise ChangedRequest(wish.pod, wish.container, wish.resource, before, wish.required)
        needed = 0
    if wish.survival is not Survival.NEW:
        return 0
    if resource is None or resource.table is None:
        if wish.required == 0:
            return 0
        if resource is not None and isinstance(resource.endpoint, Expired) and not resource.claims:
            raise ExpiredResource(wish.resource)
        raise UnregisteredResource(wish.resource)
    if not resource.healthy:
        raise NoHealthyDevices(wish.resource)
    if wish.held is not None and not _all_healthy(wish.held, resource):
        raise PreviousDevicesUnhealthy(wish.resource)
    return needed


class ReuseList:
    """Devices of one resource that later containers of the pod may take over from finished init containers."""

    def __init__(self) -> None:
        self._devices: set[DeviceId] = set()

    @property
    def devices(self) -> frozenset[DeviceId]:
        return frozenset(self._devices)

    def after(self, kind: ContainerKind, devices: frozenset[DeviceId]) -> None:
        """Note that a container now holds ``devices``: only init containers leave theirs to other containers."""
        if kind is ContainerKind.INIT:
            self._devices |= devices
        else:
            self._devices -= devices


def _all_healthy(held: HeldDevices, resource: Resource) -> bool:
    ranks = resource.listed.ranks
    return all(device_id in ranks and resource.healthy >> ranks[device_id] & 1 for device_id in held.devices)
