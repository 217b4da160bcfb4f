"""Whether a pod fails because of its devices: pure."""

from __future__ import annotations

from typing import Final

from plugbay.model.health import HealthState
from plugbay.node.records import Failure, PodRecord

REASON: Final = "DeviceFailed"


def device_failure(record: PodRecord) -> Failure | None:
    """Names the first device, by container, resource and ID, that is not healthy."""
    for container, resources in record.health.items():
        for resource, devices in resources.items():
            for device_id, health in devices.items():
                if health is not HealthState.HEALTHY:
                    message = f"device {device_id} of resource {resource}, held by container {container}, is unhealthy"
                    return Failure(REASON, message)
    return None
