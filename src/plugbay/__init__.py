"""Kubernetes device plugins in Python: what a plugin author imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugbay.doors import opens

if TYPE_CHECKING:
    from plugbay.cli.plugins.run import run
    from plugbay.errors import AllocationError, CannotRelease, PartialAllocationError
    from plugbay.model.assignments import Assignment, Origin
    from plugbay.model.devices import Device
    from plugbay.model.edits import ContainerEdits, DeviceNode, Mount, NetworkInterface, merge_devices
    from plugbay.model.health import HEALTHY, Health, HealthState, unhealthy, unknown
    from plugbay.model.semver import SemVer
    from plugbay.model.sharing import EXCLUSIVE, Exclusive, Replicas
    from plugbay.sdk.author.cdi_answers import CdiAnswer
    from plugbay.sdk.author.checks import health
    from plugbay.sdk.author.modes import Modes
    from plugbay.sdk.author.needs import (
        Capability,
        HostDirectory,
        Memory,
        NodeName,
        NodeReader,
        OneAtATime,
        OnNodes,
        Privileged,
        Variable,
    )
    from plugbay.sdk.author.plugin import DevicePlugin, plugin
    from plugbay.sdk.author.release_settings import ReleasePolicy
    from plugbay.sdk.author.resources import PluginSource, resources

__all__ = [
    "EXCLUSIVE",
    "HEALTHY",
    "AllocationError",
    "Assignment",
    "CannotRelease",
    "Capability",
    "CdiAnswer",
    "ContainerEdits",
    "Device",
    "DeviceNode",
    "DevicePlugin",
    "Exclusive",
    "Health",
    "HealthState",
    "HostDirectory",
    "Memory",
    "Modes",
    "Mount",
    "NetworkInterface",
    "NodeName",
    "NodeReader",
    "OnNodes",
    "OneAtATime",
    "Origin",
    "PartialAllocationError",
    "PluginSource",
    "Privileged",
    "ReleasePolicy",
    "Replicas",
    "SemVer",
    "Variable",
    "health",
    "merge_devices",
    "plugin",
    "resources",
    "run",
    "unhealthy",
    "unknown",
]

if not TYPE_CHECKING:  # else a misspelt name would go unnoticed
    __getattr__, __dir__ = opens(
        __name__,
        {
            "plugbay.cli.plugins.run": ["run"],
            "plugbay.errors": ["AllocationError", "CannotRelease", "PartialAllocationError"],
            "plugbay.model.assignments": ["Assignment", "Origin"],
            "plugbay.model.devices": ["Device"],
            "plugbay.model.edits": ["ContainerEdits", "DeviceNode", "Mount", "NetworkInterface", "merge_devices"],
            "plugbay.model.health": ["HEALTHY", "Health", "HealthState", "unhealthy", "unknown"],
            "plugbay.model.semver": ["SemVer"],
            "plugbay.model.sharing": ["EXCLUSIVE", "Exclusive", "Replicas"],
            "plugbay.sdk.author.cdi_answers": ["CdiAnswer"],
            "plugbay.sdk.author.checks": ["health"],
            "plugbay.sdk.author.modes": ["Modes"],
            "plugbay.sdk.author.needs": [
                "Capability",
                "HostDirectory",
                "Memory",
                "NodeName",
                "NodeReader",
                "OnNodes",
                "OneAtATime",
                "Privileged",
                "Variable",
            ],
            "plugbay.sdk.author.plugin": ["DevicePlugin", "plugin"],
            "plugbay.sdk.author.release_settings": ["ReleasePolicy"],
            "plugbay.sdk.author.resources": ["PluginSource", "resources"],
        },
    )
