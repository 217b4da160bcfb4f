"""Which requests for devices are refused. Pure.

Source: k8s-device-plugin 0.20 ``internal/rm/rm.go``, ``ValidateRequest``; spec 5.5.
"""

from __future__ import annotations

from collections.abc import Sequence

from plugbay.errors import AllocationError
from plugbay.plugins.nvidia.config.sharing import SharingSettings
from plugbay.plugins.nvidia.devices.devices import NvidiaDevice, ResourceDevices


def requested_devices(
    resource: ResourceDevices, ids: Sequence[str], sharing: SharingSettings
) -> tuple[NvidiaDevice, ...]:
    """The devices of a container's request, one for each ID in the order of the request.

    Unhealthy devices are not refused, and an empty request is not either. A replica's device is the device that it is a
    replica of.

    Raises:
        AllocationError: an ID is unknown, or the container asks for more than one replica where that is forbidden.
    """
    devices = []
    for each in ids:
        device = resource.device(each)
        if device is None:
            raise _refused(resource, f"unknown device: {each}")
        devices.append(device)
    if sharing.fails_requests_over_one and len(ids) > 1 and any(device.is_shared for device in devices):
        raise _refused(resource, f"maximum request size for shared resources is 1; found {len(ids)}")
    return tuple(devices)


def _refused(resource: ResourceDevices, problem: str) -> AllocationError:
    return AllocationError(f'invalid allocation request for "{resource.name}": invalid request: {problem}')
