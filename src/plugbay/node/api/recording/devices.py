"""The device manager as pods ask it, with every question and answer recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any

from plugbay.errors import AdmissionError
from plugbay.manager.manager import DeviceManager
from plugbay.manager.release.notices import ReleaseNotice
from plugbay.manager.serving.snapshot import DevicesHealth, ResourceCount
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.releases import ReleaseReason
from plugbay.model.requests import PodRequest
from plugbay.traffic.pod_events import RecordedContainer, RecordedStep

Tell = Callable[..., None]
"""Takes a step, the UID of its pod, and the other fields of a `PodEvent`."""


class RecordedDevices:
    """Implements `plugbay.pods.devices.DeviceSource`. Pods that ask for no device are not told of."""

    def __init__(self, manager: DeviceManager, tell: Tell) -> None:
        self._manager = manager
        self._tell_step = tell
        self._told: set[PodUid] = set()

    async def admit(self, pod: PodRequest, *, running: Collection[ContainerName] = ()) -> None:
        if any(each.limits for each in pod.containers):
            self._told.add(pod.uid)
        self._tell(RecordedStep.ADMIT, pod.uid, **about(pod), running=tuple(sorted(running)))
        try:
            await self._manager.admit(pod, running=running)
        except AdmissionError as error:
            self._tell(RecordedStep.REFUSED, pod.uid, problem=str(error))
            raise
        self._tell(RecordedStep.ADMITTED, pod.uid, devices=held_by(self._manager, pod.uid))

    async def prepare_container(self, pod: PodUid, container: ContainerName) -> ContainerEdits:
        self._tell(RecordedStep.PREPARE, pod, container=container)
        try:
            edits = await self._manager.prepare_container(pod, container)
        except AdmissionError as error:
            self._tell(RecordedStep.NOT_PREPARED, pod, container=container, problem=str(error))
            raise
        self._tell(RecordedStep.PREPARED, pod, container=container)
        return edits

    def container_ended(self, pod: PodUid, container: ContainerName, instance: str) -> None:
        self._tell(RecordedStep.ENDED, pod, container=container, instance=instance)
        self._manager.container_ended(pod, container, instance)

    def container_not_started(self, pod: PodUid, container: ContainerName) -> None:
        self._tell(RecordedStep.NOT_STARTED, pod, container=container)
        self._manager.container_not_started(pod, container)

    async def release_pod(self, pod: PodUid, *, reason: ReleaseReason = ReleaseReason.POD_ENDED) -> None:
        self._tell(RecordedStep.RELEASE, pod)
        await self._manager.release_pod(pod, reason=reason)
        self._tell(RecordedStep.RELEASED, pod)
        self._told.discard(pod)

    async def until_deallocated(self, pod: PodUid) -> None:
        await self._manager.until_deallocated(pod)

    def release_notices(self) -> AsyncIterator[ReleaseNotice]:
        return self._manager.release_notices()

    def resources(self) -> Mapping[ResourceName, ResourceCount]:
        return self._manager.resources()

    def in_use(self) -> Mapping[ResourceName, int]:
        return self._manager.in_use()

    def holds_devices(self, pod: PodUid) -> bool:
        return self._manager.holds_devices(pod)

    def changes(self) -> AsyncIterator[None]:
        return self._manager.changes()

    def health_of(self, pod: PodUid) -> DevicesHealth:
        return self._manager.health_of(pod)

    def health_notices(self) -> AsyncIterator[tuple[PodUid, ...]]:
        return self._manager.health_notices()

    def assigned_pods(self) -> frozenset[PodUid]:
        return self._manager.assigned_pods()

    def _tell(self, step: RecordedStep, pod: PodUid, **more: Any) -> None:
        if pod in self._told:
            self._tell_step(step, pod, **more)


def about(pod: PodRequest) -> dict[str, Any]:
    """The fields of a `PodEvent` that say what a pod asks for."""
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "containers": tuple(
            RecordedContainer(each.name, each.kind, {str(name): count for name, count in each.limits.items()})
            for each in pod.containers
        ),
    }


def held_by(manager: DeviceManager, pod: PodUid) -> dict[str, Mapping[str, tuple[str, ...]]]:
    """The devices of a pod, by container and resource."""
    return {
        container: {str(resource): tuple(map(str, ids)) for resource, ids in resources.items()}
        for container, resources in manager.devices_of(pod).items()
    }
