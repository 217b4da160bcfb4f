"""The machine under the node: what it has and what it runs."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plugbay.kernel.numa import read_numa_nodes
from plugbay.model.topology import ONE_NODE, NumaTopology, pretended_nodes

MAX_PODS: Final = 110
"""A kubelet's default."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a node says of the machine it runs on.

    Attributes:
        capacity: cpu in thousandths, memory and ephemeral-storage in bytes, pods.
    """

    capacity: Mapping[str, int]
    hostname: str
    kernel: str
    architecture: str
    os_image: str
    numa: NumaTopology = ONE_NODE


def read_machine(root: Path, *, max_pods: int = MAX_PODS, fake_numa_nodes: int | None = None) -> Machine:
    """This machine; ephemeral storage is the file system of ``root``. Reads files.

    Args:
        fake_numa_nodes: so many are put in the place of the machine's own.
    """
    capacity = {
        "cpu": 1000 * (os.cpu_count() or 1),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "ephemeral-storage": shutil.disk_usage(root).total,
        "pods": max_pods,
    }
    numa = read_numa_nodes(Path("/sys")) if fake_numa_nodes is None else pretended_nodes(fake_numa_nodes)
    return Machine(capacity, socket.gethostname(), platform.release(), _go_architecture(), _os_image(), numa)


def _go_architecture() -> str:
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"
