"""Where the driver's library and the device nodes lie, as the plugin's container sees them. Blocks.

Source: k8s-device-plugin 0.20 ``cmd/nvidia-device-plugin/main.go``, ``internal/cdi``; spec 2.1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from plugbay.plugins.nvidia.platform.library import FoundLibrary, find_library
from plugbay.values import dataclass

CONTROL_NODES: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
"""The nodes that every container with a GPU needs."""


@dataclass(frozen=True, slots=True)
class ContainerRoots:
    """The driver's directories in the plugin's container.

    Attributes:
        driver: the root of the driver's installation.
        dev: ``driver`` if it holds a directory ``dev``, else the root of the container.
        library: the driver's library.
    """

    driver: Path
    dev: Path
    library: FoundLibrary


def find_roots(root: Path, container_driver_root: str) -> ContainerRoots:
    """The driver's directories.

    Args:
        root: of the container's file system.
        container_driver_root: the setting; a path in the container.
    """
    driver = root / container_driver_root.lstrip("/")
    dev = driver if (driver / "dev").is_dir() else root
    return ContainerRoots(driver, dev, find_library(driver))


def present_control_nodes(root: Path) -> tuple[str, ...]:
    """Those of `CONTROL_NODES` that exist in the plugin's container."""
    return tuple(path for path in CONTROL_NODES if (root / path.lstrip("/")).exists())
