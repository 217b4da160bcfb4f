"""Where a kubelet keeps what plugins and onlookers need, below one root directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plugbay.errors import PathTooLong

MAX_SOCKET_PATH_BYTES: Final = 107
"""``sun_path`` holds 108 bytes, the last one is NUL."""


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


def check_socket_path(path: Path) -> Path:
    """``path``, if the kernel can bind it.

    Raises:
        PathTooLong: more than 107 bytes.
    """
    if len(bytes(path)) > MAX_SOCKET_PATH_BYTES:
        raise PathTooLong(str(path))
    return path
