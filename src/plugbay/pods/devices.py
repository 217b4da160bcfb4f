"""The devices of pods: the port to a device manager, and the failure of a pod whose device turned unhealthy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from enum import Enum
from typing import Final, Protocol

from plugbay.manager.release.notices import ReleaseNotice
from plugbay.manager.serving.snapshot import DevicesHealth, ResourceCount
from plugbay.model.edits import ContainerEdits
from plugbay.model.health import HealthState
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.releases import ReleaseReason
from plugbay.model.requests import PodRequest
from plugbay.pods.record import Failure, PodRecord

REASON: Final = "DeviceFailed"


class DeviceSource(Protocol):
    """The device manager as pods need it; see `plugbay.manager.manager.DeviceManager`."""

    async def admit(self, pod: PodRequest, *, running: Collection[ContainerName] = ()) -> None: ...

    async def prepare_container(self, pod: PodUid, container: ContainerName) -> ContainerEdits: ...

    def container_ended(self, pod: PodUid, container: ContainerName, instance: str) -> None: ...

    def container_not_started(self, pod: PodUid, container: ContainerName) -> None: ...

    async def release_pod(self, pod: PodUid, *, reason: ReleaseReason = ...) -> None: ...

    async def until_deallocated(self, pod: PodUid) -> None: ...

    def release_notices(self) -> AsyncIterator[ReleaseNotice]: ...

    def resources(self) -> Mapping[ResourceName, ResourceCount]: ...

    def in_use(self) -> Mapping[ResourceName, int]: ...

    def holds_devices(self, pod: PodUid) -> bool: ...

    def changes(self) -> AsyncIterator[None]: ...

    def health_of(self, pod: PodUid) -> DevicesHealth: ...

    def health_notices(self) -> AsyncIterator[tuple[PodUid, ...]]: ...

    def assigned_pods(self) -> frozenset[PodUid]: ...


class DeviceFailure(Enum):
    """The node's answer to a device that fails while a pod has it."""

    KEEP = "keep"
    """The pod goes on, and its status tells of it, as with kubelet 1.36."""
    FAIL_POD = "fail-pod"
    """The pod fails and is stopped, so that its controller can make another one."""


def device_failure(record: PodRecord) -> Failure | None:
    """The failure of a pod that has a device which is not healthy; it names the first one."""
    for container, resources in record.health.items():
        for resource, devices in resources.items():
            for device_id, health in devices.items():
                if health is not HealthState.HEALTHY:
                    message = f"device {device_id} of resource {resource}, held by container {container}, is unhealthy"
                    return Failure(REASON, message)
    return None
