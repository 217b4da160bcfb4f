"""Where the driver's files and device nodes are seen from: this process, containers, and the host."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SpecRoots:
    """The roots of paths in a spec.

    Attributes:
        driver: the root of the driver's installation, for this process.
        dev: the directory that holds ``dev``, for this process; it may be ``driver``.
        host_driver: ``driver`` as the host knows it.
        host_dev: ``dev`` likewise; it counts only when ``dev`` is not ``driver``, as in the reference.
    """

    driver: Path
    dev: Path
    host_driver: str = "/"
    host_dev: str = "/"

    def host_file(self, path: str) -> str:
        """The host's path of the driver's file ``path``, which is absolute below ``driver``."""
        return _join(self.host_driver, path)

    def host_node(self, path: str) -> str:
        """The host's path of the device node ``path``, such as ``/dev/nvidia0``."""
        root = self.host_driver if self.dev == self.driver else self.host_dev.removesuffix("/dev")
        return _join(root, path)


def _join(root: str, path: str) -> str:
    return posixpath.join(root or "/", path.lstrip("/"))
