"""Health of the devices that pods hold: who has to be told, and what a pod's status says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping

from plugbay.manager.state import ManagerState
from plugbay.model.health import HealthState
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName

DevicesHealth = Mapping[ContainerName, Mapping[ResourceName, Mapping[DeviceId, HealthState]]]
"""Resources and devices in order of their names."""


class HealthNotices:
    """Pods whose devices changed health, for one reader; of a pod several changes make one notice.

    A kubelet has a queue of 100 notices, drops what does not fit, and looks the pod up by device ID alone (spec 3.4).
    """

    def __init__(self) -> None:
        self._pods: set[PodUid] = set()
        self._filled = asyncio.Event()

    def put(self, pods: Iterable[PodUid]) -> None:
        self._pods.update(pods)
        if self._pods:
            self._filled.set()

    async def __aiter__(self) -> AsyncIterator[frozenset[PodUid]]:
        while True:
            await self._filled.wait()
            self._filled.clear()
            pods = frozenset(self._pods)
            self._pods.clear()
            yield pods


def health_of(state: ManagerState, pod: PodUid) -> DevicesHealth:
    """The health of everything ``pod`` holds: ``Healthy`` or ``Unhealthy``."""
    found: dict[ContainerName, dict[ResourceName, dict[DeviceId, HealthState]]] = {}
    for item in sorted(state.of_pod(pod), key=lambda item: item.resource):
        resource = state.resources[item.resource]
        found.setdefault(item.container, {})[item.resource] = {
            device_id: resource.health(device_id) for device_id in sorted(item.devices)
        }
    return found
