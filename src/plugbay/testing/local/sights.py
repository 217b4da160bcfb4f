"""A kubelet's sight of its plugins and their devices at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from plugbay.manager.serving.snapshot import Snapshot
from plugbay.manager.state import Expired, Live, Restored, Stopped
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class ResourceSight:
    """One resource.

    Attributes:
        plugin: a sentence about its plugin.
        devices: device ID to health: the plugin's word, or ``Unknown`` while the plugin is away.
    """

    capacity: int
    allocatable: int
    plugin: str
    devices: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class KubeletSight:
    """All resources, by name; `counted` are those that the node object shows."""

    resources: Mapping[str, ResourceSight] = field(default_factory=dict)
    counted: frozenset[str] = frozenset()

    @property
    def capacity(self) -> dict[str, int]:
        """Number of devices, healthy or not, by resource."""
        return {name: each.capacity for name, each in self.resources.items() if name in self.counted}

    @property
    def allocatable(self) -> dict[str, int]:
        """Number of healthy devices, in use or not, by resource."""
        return {name: each.allocatable for name, each in self.resources.items() if name in self.counted}

    @property
    def health(self) -> dict[str, dict[str, str]]:
        """Device ID to health, by resource."""
        return {name: dict(each.devices) for name, each in self.resources.items()}


def sight_of(snapshot: Snapshot, counted: frozenset[str]) -> KubeletSight:
    """The sight of a manager's ``snapshot``."""
    return KubeletSight(
        {
            each.name: ResourceSight(
                each.count.capacity,
                each.count.allocatable,
                _plugin(each.endpoint),
                {device.id: device.health for device in each.devices if device.is_listed},
            )
            for each in snapshot.resources
        },
        counted,
    )


def _plugin(endpoint: Live | Stopped | Restored | Expired) -> str:
    match endpoint:
        case Live(socket=socket):
            return f"its plugin is registered at {socket}"
        case Stopped(socket=socket):
            return f"its plugin at {socket} is gone"
        case Restored():
            return "its plugin has not registered since the kubelet started"
        case Expired():
            return "it has no plugin"
