"""The paths below a kubelet's root directory that plugins and onlookers need."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from plugbay.values import dataclass

STOCK_ROOT: Final = Path("/var/lib/kubelet")
"""The root of a kubelet without ``--root-dir``."""


@dataclass(frozen=True, slots=True)
class KubeletPaths:
    """The directories and sockets below a kubelet's root (see `STOCK_ROOT`).

    Source: kubelet 1.36 ``pkg/kubelet/apis/deviceplugin/v1beta1/constants.go``, ``pkg/kubelet/kubelet_getters.go``.
    """

    root: Path

    @property
    def device_plugins(self) -> Path:
        return self.root / "device-plugins"

    @property
    def registration_socket(self) -> Path:
        return self.device_plugins / "kubelet.sock"

    @property
    def checkpoint(self) -> Path:
        return self.device_plugins / "kubelet_internal_checkpoint"

    @property
    def plugins_registry(self) -> Path:
        return self.root / "plugins_registry"

    @property
    def pod_resources_socket(self) -> Path:
        return self.root / "pod-resources" / "kubelet.sock"
