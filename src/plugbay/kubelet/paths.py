"""Where a kubelet keeps what plugins and onlookers need, below one root directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KubeletPaths:
    """The directories and sockets below a kubelet's root (a stock kubelet's is ``/var/lib/kubelet``).

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
