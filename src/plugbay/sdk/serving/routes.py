"""The two ways in which a kubelet and a plugin come to know each other.

Source: spec 1.6, 1.7.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from plugbay.kubelet.paths import KubeletPaths


class RegistrationRoute(Enum):
    """The way a plugin gets registered."""

    KUBELET = "kubelet"
    """We call Register at ``kubelet.sock``. Every kubelet takes it."""
    WATCHER = "watcher"
    """The kubelet's plugin watcher finds our socket in ``plugins_registry`` and asks which plugin it is."""
    BOTH = "both"
    """Either; a kubelet that takes both registers the resource twice, and reads the list on two streams."""

    @property
    def calls(self) -> bool:
        """Whether we call the kubelet."""
        return self is not RegistrationRoute.WATCHER

    @property
    def is_found(self) -> bool:
        """Whether the kubelet finds us."""
        return self is not RegistrationRoute.KUBELET

    def directories(self, paths: KubeletPaths) -> tuple[Path, ...]:
        """The directories where an incarnation has a socket; a kubelet makes them."""
        return (paths.device_plugins,) * self.calls + (paths.plugins_registry,) * self.is_found
