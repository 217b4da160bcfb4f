"""The use of the whole machine's processors, memory and file systems.

Source: Linux ``proc(5)``; Kubernetes 1.36 ``kubelet/pkg/apis/stats/v1alpha1/types.go`` for what is counted as what.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plugbay.values import dataclass

_IDLE: Final = (3, 4)
"""The places of idle and iowait in the line of all processors."""
_COUNTED: Final = 8
"""The first columns; guests are contained in the users'."""
_SECOND_NS: Final = 10**9
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class MachineUsage:
    """Amounts in bytes, but for the processors.

    Attributes:
        cpu_ns: the time that processors have worked since the machine's start.
        working_set: memory in use, without file contents that were not used lately.
    """

    cpu_ns: int
    memory: int
    memory_used: int
    working_set: int
    resident: int


@dataclass(frozen=True, slots=True)
class FileSystemUsage:
    """Amounts of a file system, in bytes; inodes are counted."""

    capacity: int
    available: int
    used: int
    inodes: int
    inodes_free: int


def read_machine_usage(*, proc_root: Path) -> MachineUsage:
    """
    Raises:
        OSError: ``proc_root`` is not a proc file system.
    """
    memory = _meminfo((proc_root / "meminfo").read_text())
    used = memory["MemTotal"] - memory["MemFree"]
    return MachineUsage(
        _cpu_ns((proc_root / "stat").read_text(), ticks=os.sysconf("SC_CLK_TCK")),
        memory["MemTotal"],
        used,
        max(0, used - memory.get("Inactive(file)", 0)),
        memory.get("AnonPages", 0),
    )


def read_file_system_usage(path: Path) -> FileSystemUsage:
    """The file system that holds ``path``.

    Raises:
        OSError: there is no such path.
    """
    found = os.statvfs(path)
    return FileSystemUsage(
        found.f_blocks * found.f_frsize,
        found.f_bavail * found.f_frsize,
        (found.f_blocks - found.f_bfree) * found.f_frsize,
        found.f_files,
        found.f_ffree,
    )


def _cpu_ns(text: str, *, ticks: int) -> int:
    columns = [int(each) for each in text.split("\n", 1)[0].split()[1:]][:_COUNTED]
    worked = sum(count for place, count in enumerate(columns) if place not in _IDLE)
    return worked * _SECOND_NS // ticks


def _meminfo(text: str) -> Mapping[str, int]:
    lines = (line.partition(":") for line in text.splitlines() if line)
    return {name: int(value.split()[0]) * _KIB for name, _, value in lines}
