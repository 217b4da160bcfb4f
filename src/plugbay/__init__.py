"""Kubernetes device plugins in Python: what a plugin author imports."""

from plugbay.model.devices import Device
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount, merge_devices
from plugbay.model.health import HEALTHY, Health, HealthState, unhealthy, unknown
from plugbay.sdk.entry import run
from plugbay.sdk.plugin import DevicePlugin, plugin

__all__ = [
    "HEALTHY",
    "ContainerEdits",
    "Device",
    "DeviceNode",
    "DevicePlugin",
    "Health",
    "HealthState",
    "Mount",
    "merge_devices",
    "plugin",
    "run",
    "unhealthy",
    "unknown",
]
