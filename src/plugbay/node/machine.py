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

MAX_PODS: Final = 110
"""A kubelet's default."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Attributes: ``capacity`` holds cpu in thousandths, memory and ephemeral-storage in bytes, pods."""

    capacity: Mapping[str, int]
    hostname: str
    kernel: str
    architecture: str
    os_image: str


def read_machine(root: Path, *, max_pods: int = MAX_PODS) -> Machine:
    """This machine; ephemeral storage is the file system of ``root``. Reads files."""
    capacity = {
        "cpu": 1000 * (os.cpu_count() or 1),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "ephemeral-storage": shutil.disk_usage(root).total,
        "pods": max_pods,
    }
    return Machine(capacity, socket.gethostname(), platform.release(), _go_architecture(), _os_image())


def _go_architecture() -> str:
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"
