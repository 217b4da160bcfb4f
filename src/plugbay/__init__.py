"""Kubernetes device plugins in Python: what a plugin author imports."""

from plugbay.cli.entry import run
from plugbay.errors import AllocationError, CannotRelease, PartialAllocationError
from plugbay.model.assignments import Assignment, Origin
from plugbay.model.devices import Device
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount, merge_devices
from plugbay.model.health import HEALTHY, Health, HealthState, unhealthy, unknown
from plugbay.model.semver import SemVer
from plugbay.model.sharing import EXCLUSIVE, Exclusive, Replicas
from plugbay.sdk.cdi.answers import CdiAnswer
from plugbay.sdk.checks import health
from plugbay.sdk.modes import Modes
from plugbay.sdk.plugin import DevicePlugin, plugin
from plugbay.sdk.release.settings import ReleasePolicy
from plugbay.sdk.resources import PluginSource, resources

__all__ = [
    "EXCLUSIVE",
    "HEALTHY",
    "AllocationError",
    "Assignment",
    "CannotRelease",
    "CdiAnswer",
    "ContainerEdits",
    "Device",
    "DeviceNode",
    "DevicePlugin",
    "Exclusive",
    "Health",
    "HealthState",
    "Modes",
    "Mount",
    "Origin",
    "PartialAllocationError",
    "PluginSource",
    "ReleasePolicy",
    "Replicas",
    "SemVer",
    "health",
    "merge_devices",
    "plugin",
    "resources",
    "run",
    "unhealthy",
    "unknown",
]
