"""Pods that a stock kubelet admits again after its start, and those that it rejects.

Source: spec 4.5 to 4.7; `versions.QUIRKS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from plugbay.errors import NoHealthyDevices, PreviousDevicesUnhealthy
from plugbay.model.ids import ContainerName, DeviceId, ResourceName
from plugbay.model.requests import ContainerKind, PodRequest
from plugbay.testing.local.sights import KubeletSight
from plugbay.testing.local.stock.versions import Quirk

Held = Mapping[ContainerName, Mapping[ResourceName, Sequence[DeviceId]]]


def check_readmission(pod: PodRequest, held: Held, sight: KubeletSight, quirks: Collection[Quirk]) -> None:
    """Check a pod whose containers run, and whose init containers have completed.

    Args:
        held: the devices that its containers hold.

    Raises:
        NoHealthyDevices, PreviousDevicesUnhealthy: such a kubelet rejects it.
    """
    for container in pod.containers:
        is_completed = container.kind is ContainerKind.INIT
        if not (Quirk.CHECKS_RUNNING in quirks or (is_completed and Quirk.CHECKS_COMPLETED_INIT in quirks)):
            continue
        for resource, devices in held.get(container.name, {}).items():
            health = sight.health.get(resource, {})
            healthy = {device for device, text in health.items() if text == "Healthy"}
            if not healthy:
                raise NoHealthyDevices(resource)
            if not healthy.issuperset(devices):
                raise PreviousDevicesUnhealthy(resource)


def without_sidecars(pod: PodRequest) -> PodRequest:
    """The pod as a kubelet sees it that does not know of sidecars: they are init containers."""
    containers = (
        replace(each, kind=ContainerKind.INIT) if each.kind is ContainerKind.SIDECAR else each
        for each in pod.containers
    )
    return replace(pod, containers=tuple(containers))
