"""Where the driver's files and device nodes are seen from: this process, containers, and the host.

Source: k8s-device-plugin 0.20 ``internal/cdi/cdi.go``; nvidia-container-toolkit 1.20.0 ``pkg/nvcdi/transform/root``.
"""

from __future__ import annotations

from pathlib import Path

from plugbay.plugins.nvidia.config.host_paths import join_root
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class SpecRoots:
    """The roots of paths in a spec.

    Attributes:
        driver: the root of the driver's installation, for this process.
        dev: the directory that holds ``dev``, for this process; it may be ``driver``.
        host_driver: ``driver`` as the host knows it; empty for ``driver`` itself.
        host_dev: ``dev`` likewise; it counts only when ``dev`` is not ``driver``, as in the reference.
    """

    driver: Path
    dev: Path
    host_driver: str = "/"
    host_dev: str = "/"

    def host_file(self, path: str) -> str:
        """The host's path of the driver's file ``path``, which is absolute below ``driver``."""
        return join_root(self._host_driver, path)

    def host_node(self, path: str) -> str:
        """The host's path of the device node ``path``, such as ``/dev/nvidia0``."""
        root = self._host_driver if self.dev == self.driver else self._host_dev.removesuffix("/dev")
        return join_root(root, path)

    def named_host_node(self, path: str) -> str:
        """`host_node` as specs have it: empty where it goes without saying, which is when no root is another on the
        host. The reference names it otherwise, even if it is ``path``."""
        on_host = self.host_node(path)
        return on_host if on_host != path or self._are_moved else ""

    @property
    def _host_driver(self) -> str:
        return self.host_driver or str(self.driver)

    @property
    def _host_dev(self) -> str:
        return self.host_dev or str(self.dev)

    @property
    def _are_moved(self) -> bool:
        if self._host_driver != str(self.driver):
            return True
        return self.dev != self.driver and self._host_dev.removesuffix("/dev").rstrip("/") != str(self.dev).rstrip("/")
