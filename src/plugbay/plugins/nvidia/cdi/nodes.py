"""Device nodes of specs, as they are found on the machine. Blocks.

Source: nvidia-container-toolkit 1.20.0 ``internal/edits/device.go``, ``internal/info/drm``,
``internal/platform-support/dgpu/by-path-hooks.go``; spec 6.2.
"""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from plugbay.cdi.host import host_node
from plugbay.cdi.nodes import HostNode
from plugbay.cdi.spec import SpecDeviceNode
from plugbay.plugins.nvidia.cdi.roots import SpecRoots
from plugbay.values import dataclass

CONTROL_NODES: Final = ("/dev/nvidia-modeset", "/dev/nvidia-uvm-tools", "/dev/nvidia-uvm", "/dev/nvidiactl")
_CHARACTER: Final = "c"
_FOR_ALL: Final = 0o006
_PERMISSIONS: Final = "rwm"
_BY_PATH: Final = "/dev/dri/by-path"


@dataclass(frozen=True, slots=True)
class NodeFinder:
    """Finds device nodes.

    Attributes:
        sys: the directory where sysfs is mounted.
        adds_groups: whether the group of a node that not every user may read and write is given to the container
            (not with ``no-additional-gids-for-device-nodes``).
    """

    roots: SpecRoots
    sys: Path = Path("/sys")
    adds_groups: bool = True

    def node(self, path: str) -> SpecDeviceNode | None:
        """The device node at ``path`` in containers; None when it is not there, or not a character device."""
        found = self._look(path)
        if found is None or found.type != _CHARACTER:
            return None
        return SpecDeviceNode(
            path,
            host_path=self.roots.named_host_node(path),
            major=found.major,
            minor=found.minor,
            file_mode=found.mode or None,
            permissions=_PERMISSIONS,
            gid=found.gid or None,
        )

    def missing(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Those of the paths that are not device nodes."""
        return tuple(path for path in paths if self.node(path) is None)

    def matching(self, pattern: str) -> Iterator[SpecDeviceNode]:
        """The device nodes whose paths match a pattern of the shell, by path."""
        for path in sorted(glob.glob(f"{glob.escape(str(self.roots.dev).rstrip('/'))}{pattern}")):
            if node := self.node(f"/{os.path.relpath(path, self.roots.dev)}"):
                yield node

    def groups(self, node: SpecDeviceNode) -> tuple[int, ...]:
        """The groups that a container needs for a node: its own, if not all users may read and write it."""
        if not self.adds_groups or not node.gid or node.file_mode is None or node.file_mode & _FOR_ALL == _FOR_ALL:
            return ()
        return (node.gid,)

    def graphics_paths(self, pci_bus_id: str) -> list[str]:
        """The nodes under ``/dev/dri`` of the GPU at a PCI address."""
        drm = self.sys / "bus/pci/devices" / pci_bus_id / "drm"
        return [f"/dev/dri/{name}" for name in sorted(os.listdir(drm))] if pci_bus_id and drm.is_dir() else []

    def graphics_links(self, pci_bus_id: str, paths: list[str]) -> Iterator[tuple[str, str]]:
        """The links by PCI address to those of a GPU's nodes that are in ``paths``, as target and link."""
        for kind in ("card", "render"):
            link = f"{_BY_PATH}/pci-{pci_bus_id}-{kind}"
            try:
                target = os.readlink(self.roots.dev / link.lstrip("/"))
            except OSError:
                continue
            if posixpath.normpath(posixpath.join(_BY_PATH, target)) in paths:
                yield target, link

    def _look(self, path: str) -> HostNode | None:
        try:
            return host_node(path, root=self.roots.dev)
        except OSError:
            return None
